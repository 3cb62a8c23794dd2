"""A drift run in a process of its own: `python -m omnidraft.lab.child DATA_HOME RUNS_FOLDER RUN`, events as JSON lines.

The app's memory stays free of torch and of the run's models, and an answer in the chat does not share a lock with it.
A line on stdin, behind one with its keys if the data home is encrypted, asks it to stop; when stdin closes, the app is
gone and the run stops, too. What was answered is on disk after every prompt, whatever happens here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from omnidraft.errors import OmniDraftError
from omnidraft.lab import runs as drift
from omnidraft.lab.store import RunStore
from omnidraft.storage.paths import DataHome
from omnidraft.storage.trial import TRIALS
from omnidraft.storage.vault import HEADER, take_keys


def main(home: Path, folder: Path, run: str) -> int:
    """Exit code 0 if the run ended as it should, 1 after {"failed": sentence}."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    try:
        if (home / HEADER).exists():
            take_keys(sys.stdin.readline())
        TRIALS.keep_in(DataHome(home).cache)
        store = RunStore(folder)
        going = drift.DriftRun(DataHome(home), store, store.load(run))
        threading.Thread(target=_listen, args=(going,), daemon=True).start()
        for event in going.events():
            print(json.dumps({"loading": event.target} if isinstance(event, drift.Loading) else {}), file=events)
    except OmniDraftError as error:
        print(json.dumps({"failed": str(error)}), file=events)
        return 1
    return 0


def _listen(run: drift.DriftRun) -> None:
    sys.stdin.readline()
    run.stop()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
