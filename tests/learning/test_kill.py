"""Killed at any moment, what writes versions leaves the last good one; the whole app's kills are in tests/crash."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from omnidraft.learning.adapters.store import FILE, AdapterStore, read_candidate
from omnidraft.learning.adapters.versions import read_version

TIMES = 50
# Publishes and keeps candidates, again and again. Libraries are loaded once: each line asks for a fork that does it.
WRITER = """
import itertools, os, sys
from pathlib import Path
import numpy as np
from omnidraft.learning.adapters.store import Candidate, keep_candidate
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta

def write(store):
    for behind in itertools.count(os.getpid()):
        weights = np.full((300, 300), behind, np.float32)
        keep_candidate(store.folder, Candidate({"output.lora_a": weights}, "", behind, 0, ()))
        data = os.urandom(300_000)
        store.publish({ADAPTER: data, WEIGHTS: data[::-1]}, Meta(drafter="d", vocabulary="v"))
        store.prune()

for _ in sys.stdin:
    if (pid := os.fork()) == 0:
        write(AdapterStore(Path(sys.argv[1])))
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("over", flush=True)
"""


def sound(store: AdapterStore, before: int) -> int:
    """The number of the version served, which is whole and not older than `before`."""
    current = AdapterStore(store.folder).current()
    assert (current.number if current else 0) >= before
    if current is not None:
        assert read_version(current.path) is not None
    return current.number if current else 0


@pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")
def test_a_version_is_whole_or_not_there_whenever_its_writer_is_killed(tmp_path):
    store, number, published, candidates = AdapterStore(tmp_path / "store"), 0, set(), 0
    numbers, command = random.Random(1), [sys.executable, "-c", WRITER, str(store.folder)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(TIMES):
            print(file=writer.stdin, flush=True)
            victim = int(writer.stdout.readline())
            time.sleep(numbers.uniform(0.0, 0.15))
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            assert writer.stdout.readline() == "over\n"
            number = sound(store, number)
            published.add(number)
            if (store.folder / FILE).exists():
                candidate, candidates = read_candidate(store.folder), candidates + 1
                assert (candidate.weights["output.lora_a"] == candidate.behind).all()
        writer.stdin.close()
    assert len(published) > 5
    assert candidates > 5
    store.prune()
    left = {path.name for path in store.folder.iterdir() if not path.name.startswith(".current.json.")}
    assert left <= {v.name for v in store.versions()} | {"current.json", FILE}
