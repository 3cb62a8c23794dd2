"""Killed at any moment, trainer and app leave what the next start needs: the last good version and every answer."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from omnidraft.learning.adapters.candidate import FILE, read_candidate
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import read_version
from omnidraft.learning.material.expansions import table_files
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training_job import update_job
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ask, open_assistant, until

RUNNER = Path(__file__).with_name("kill_runner.py")
TIMES = 50
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")


class Victims:
    """Starts children of the runner and kills them."""

    def __init__(self, mode: str, home: Path) -> None:
        command = [sys.executable, str(RUNNER), mode, str(home)]
        self.runner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.runner.stdout.readline() == "ready\n"

    def kill_one(self, seconds: float) -> list[psutil.Process]:
        """Let one run for `seconds`, then kill -9; returns what it had started."""
        self.runner.stdin.write("go\n")
        self.runner.stdin.flush()
        pid = int(self.runner.stdout.readline())
        time.sleep(seconds)
        children = []
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert self.runner.stdout.readline() == "over\n"
        return children

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.stdin.close()
        self.runner.stdout.close()
        self.runner.wait()


def sound(store: AdapterStore, before: int) -> int:
    """The number of the version served, which is whole and not older than `before`."""
    current = AdapterStore(store.folder).current()
    assert (current.number if current else 0) >= before
    if current is not None:
        assert read_version(current.path) is not None
    return current.number if current else 0


def test_a_version_is_whole_or_not_there_whenever_its_writer_is_killed(tmp_path):
    store, number, published, candidates = AdapterStore(tmp_path / "store"), 0, set(), 0
    numbers = random.Random(1)
    with Victims("write", tmp_path) as victims:
        for _ in range(TIMES):
            victims.kill_one(numbers.uniform(0.0, 0.15))
            number = sound(store, number)
            published.add(number)
            if (store.folder / FILE).exists():
                candidate, candidates = read_candidate(store.folder), candidates + 1
                assert (candidate.weights["output.lora_a"] == candidate.behind).all()
    assert len(published) > 5
    assert candidates > 5
    store.prune()
    left = {path.name for path in store.folder.iterdir() if not path.name.startswith(".current.json.")}
    assert left <= {v.name for v in store.versions()} | {"current.json", FILE}


@pytest.fixture
def prepared(tmp_path, models):
    """A data home with 12 answers waiting, and the job an update of them would be."""
    home = find_data_home(tmp_path / "home")
    assistant = open_assistant(home, models, interval=1000)
    ask(assistant, range(12))
    until(lambda: assistant.learner.status().replay_answers == 12)
    pairing = assistant.learner.pairing
    tables, replay = table_files(home.cache, pairing.pair, "per-target"), assistant.profile.replay
    loaded = (pairing.choice, pairing.pair.target.fingerprint, pairing.target, assistant.settings.learning, replay)
    job = update_job(*loaded, tables, tmp_path / "m", 1)
    assistant.close()
    (home.root / "job.json").write_text(json.dumps({**asdict(job), "cpu_percent": 100}))
    return home, AdapterStore(pairing.choice.store.folder), assistant.profile


def all_is_there(home, models, profile, store: AdapterStore) -> None:
    """The next start serves the last good version, has all answers, and answers."""
    with ReplayStore(profile.replay) as replay:
        assert len(replay) == 12
        assert len([record for _, record in replay]) == 12
    current = store.current()
    assistant = open_assistant(home, models, interval=1000)
    assert assistant.learner.status().served == (current.name if current else None)
    assert ask(assistant, range(1), "terminal")[0].statistics.tokens
    assistant.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_killed_trainer_loses_nothing(prepared, models):
    home, store, profile = prepared
    numbers, number = random.Random(2), 0
    with Victims("train", home.root) as victims:
        began = time.monotonic()
        victims.kill_one(0)
        for i in range(TIMES):
            victims.kill_one(numbers.uniform(0.0, 6.0))
            number = sound(store, number)
            with ReplayStore(profile.replay, read_only=True) as replay:
                assert len(replay) == 12
            assert time.monotonic() - began < 3000, i
    assert number > 0
    all_is_there(home, models, profile, store)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_killed_app_loses_nothing_and_leaves_no_trainer(prepared, models):
    home, store, profile = prepared
    numbers, number, trained, finished = random.Random(3), 0, 0, 0
    with Victims("app", home.root) as victims:
        for _ in range(TIMES):
            children = victims.kill_one(numbers.uniform(0.5, 10.0))
            trained += bool(children)
            _, alive = psutil.wait_procs(children, timeout=20)
            assert not alive
            number = sound(store, number)
            if store.through:  # that update came to its end; the next victim shall train again
                finished += 1
                store.forget(None)
                number = 0
    print(f"{trained} of {TIMES} killed while training, {finished} behind an update")
    assert trained > TIMES // 2
    all_is_there(home, models, profile, store)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_kill_in_a_swap_leaves_a_version_to_serve(prepared, models):
    home, store, profile = prepared
    assistant = open_assistant(home, models, interval=8)
    for number in (1, 2):
        assistant.learner.train_now()
        until(lambda n=number: assistant.learner.status().served == f"v00000{n}", "an update")
        ask(assistant, range(12, 24), "more-{}")
    assistant.close()
    numbers = random.Random(4)
    with Victims("swap", home.root) as victims:
        for _ in range(TIMES):
            victims.kill_one(numbers.uniform(0.6, 2.0))
            current = store.current()
            assert current is None or read_version(current.path) is not None
            assert [v.name for v in store.versions()] == ["v000001", "v000002"]
    with ReplayStore(profile.replay) as replay:
        assert len(replay) >= 12
