"""Children for tests of what runs children: `python -m tests.crashing REQUEST`, which says how to end in its path."""

from __future__ import annotations

import json
import os
import sys
import time

from omnidraft.processes.bounded_child import limit_this_process

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    limit_this_process(request["seconds"], request["memory"])
    wanted = os.path.basename(request["path"]).removesuffix(".gguf")
    if wanted == "abort":
        os.abort()
    if wanted == "hang":
        time.sleep(600)
    if wanted == "memory":
        held = [bytes(1 << 20) for _ in range(2000)]
    print(json.dumps("is odd." if wanted == "odd" else ""), flush=True)
