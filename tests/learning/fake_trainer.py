"""Stands in for the training process: what a job's seed says it does. 101: fail; 102: never end; else: refuse."""

import os
import sys
import time
from dataclasses import replace

from omnidraft.learning.update import Job


def main() -> int:
    for line in sys.stdin:
        job = Job.from_line(line)
        if job.seed == 101:
            print(job.update.said("failed", "it could not be done").to_line(), end="", flush=True)
            return 1
        if job.seed == 102:
            time.sleep(600)
        refused = job.update.said("refused", f"by {os.getpid()}")
        print(refused.to_line(), end="", flush=True)
        print(replace(refused, ended=time.time()).to_line(), end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
