"""Stands in for the training process: what a job's seed says it does. 0: refuse; 1: fail; 2: never end."""

import json
import os
import sys
import time

from omnidraft.learning.training_job import Failed, Finished, Refused

ANSWERS = 6  # that an update has seen


def main() -> int:
    for number, line in enumerate(sys.stdin):
        job = json.loads(line)
        does = job["seed"] if job["kind"] == "update" and job["seed"] in (1, 2) and job["target"] == "seeded" else 0
        if does == 1:
            print(Failed("it could not be done").to_line(), end="", flush=True)
            return 1
        if does == 2:
            time.sleep(600)
        print(Refused(job["through"] + ANSWERS, f"job {number} of {os.getpid()}").to_line(), end="", flush=True)
        print(Finished(0.0, 0.0, 0.0).to_line(), end="", flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
