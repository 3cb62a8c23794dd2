"""Does something over and over that a test kills: `kill_runner.py MODE HOME`, one child process per line on stdin.

Libraries are loaded once; each child is a fork that knows nothing of the ones before but what is on disk.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
MODELS = Path(__file__).resolve().parents[2] / "models"


def main(mode: str, home: Path) -> None:
    body = {"train": train, "write": write, "app": app, "swap": swap}[mode](home)
    print("ready", flush=True)
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            body()
            os._exit(0)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("over", flush=True)


def train(home: Path):
    """Whole updates: training, judging, writing, publishing."""
    import torch

    from omnidraft.learning.adapters.store import AdapterStore
    from omnidraft.learning.training.update import run
    from omnidraft.learning.training_job import TrainingJob

    torch.set_num_threads(1)
    job = TrainingJob(**json.loads((home / "job.json").read_text()))

    def body() -> None:
        current = AdapterStore(Path(job.store)).current()
        start = str(current.weights) if current else None
        for _ in run(replace(job, start=start, parent=current.name if current else None, through=0)):
            pass

    return body


def write(home: Path):
    """Publishing and keeping candidates alone, again and again, with all that happens around it."""
    import numpy as np

    from omnidraft.learning.adapters.candidate import Candidate, keep_candidate
    from omnidraft.learning.adapters.store import AdapterStore
    from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta

    def body() -> None:
        store = AdapterStore(home / "store")
        for behind in itertools.count(os.getpid()):
            weights = np.full((300, 300), behind, np.float32)
            keep_candidate(store.folder, Candidate({"output.lora_a": weights}, "", behind, 0, ()))
            data = os.urandom(300_000)
            version = store.publish({ADAPTER: data, WEIGHTS: data[::-1]}, Meta(drafter="d", vocabulary="v"))
            store.attach_head(version.name, b"{}")
            store.prune()

    return body


def _open(home: Path):
    from omnidraft.storage.paths import find_data_home
    from tests.learning.living import open_assistant

    return open_assistant(find_data_home(home), MODELS)


def app(home: Path):
    """The app with enough answers waiting: its training process starts at once."""
    import living  # noqa: F401 - loads what the children need

    def body() -> None:
        assistant = _open(home)
        assistant.learner.train_now()
        seen = -1
        while True:
            seen = assistant.learner.wait(seen, 60)

    return body


def swap(home: Path):
    """The app swapping between two versions as fast as it can, and answering in between."""
    from tests.learning.living import ask

    def body() -> None:
        assistant = _open(home)
        assistant.learner.hold()
        store = assistant.loaded.choice.store
        while True:
            for version in (None, "v000001", "v000002"):
                store._point(replace(store.pointer, version=version))
                assistant._serve()
                ask(assistant, range(1))

    return body


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
