"""Stands in for the training process: what a job's seed says it does. 0: refuse; 1: fail; 2: never end."""

import os
import sys
import time
from dataclasses import replace

from omnidraft.learning.update import Job

ANSWERS = 6  # that an update has seen


def main() -> int:
    for number, line in enumerate(sys.stdin):
        job = Job.from_line(line)
        update = job.update
        does = job.seed if update.kind == "update" and job.seed in (1, 2) and update.target == "seeded" else 0
        if does == 1:
            print(update.said("failed", "it could not be done").to_line(), end="", flush=True)
            return 1
        if does == 2:
            time.sleep(600)
        refused = replace(update, through=job.through + ANSWERS).said("refused", f"job {number} of {os.getpid()}")
        print(refused.to_line(), end="", flush=True)
        print(replace(refused, ended=time.time()).to_line(), end="", flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
