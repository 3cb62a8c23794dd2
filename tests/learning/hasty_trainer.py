"""The training process as it is, but for its priority: beside other tests it would wait for a minute."""

import os
import sys

from omnidraft.learning.training import process

if __name__ == "__main__":
    process.system.lower_priority = lambda: None
    code = process.main()
    sys.stdout.flush()
    os._exit(code)
