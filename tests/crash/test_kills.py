"""The app, its pages and the terminal are killed at any moment: nothing shown as done is lost, nothing needs repair.

Each once in every run; the slow test as often as `--kills` says.
"""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from omnidraft.learning.adapters.store import FILE, KEPT, read_candidate
from omnidraft.learning.adapters.versions import unfinished, write_merged
from omnidraft.storage.paths import find_data_home
from tests.crash.checks import VOCABULARY, Said, check, learned_in
from tests.ui.conftest import free_port

ROOT = Path(__file__).resolve().parents[2]
MODES = ("page", "chat", "serve")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")


class Victims:
    """Starts victims and kills them; `said` is what they said."""

    def __init__(self, home: Path, log: Path) -> None:
        self.said, self._log = Said(), log.open("wb")
        command = [sys.executable, "-m", "tests.crash.victims", str(home)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._runner = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        assert self._runner.stdout.readline() == b"prepared\n", log.read_text()

    def kill_one(self, mode: str, seed: int, behind: str, seconds: float) -> bool:
        """Kill a victim `seconds` after it said this for the first time; whether it had shown anything by then."""
        port = free_port()
        self._runner.stdin.write(f"{mode} {seed} {port}\n".encode())
        self._runner.stdin.flush()
        killer, showed, pid, due = None, False, 0, False
        for line in self._heard("over"):
            pid = line.get("victim", pid)  # its parent says that, maybe only after its own first words
            showed |= "shown" in line
            due |= behind in line or "broken" in line
            if killer is None and pid and due:
                killer = threading.Thread(target=_kill, args=(mode, pid, port, seconds), daemon=True)
                killer.start()
        if killer is not None:
            killer.join()
        return showed

    def _heard(self, last: str) -> Iterator[dict]:
        for line in self._runner.stdout:
            if not line.startswith(b"{"):
                continue  # what the terminal prints
            self.said.hear(line)
            found = json.loads(line)
            yield found
            if last in found:
                return

    def close(self) -> None:
        self._runner.stdin.close()
        self._runner.stdout.close()
        self._runner.wait(60)
        self._log.close()


def _kill(mode: str, pid: int, port: int, seconds: float) -> None:
    """Kill after a while, a server in the middle of what it streams; what a victim started must not outlive it."""
    if mode == "serve":
        stream_from(port, pid, seconds)
    else:
        time.sleep(seconds)
    children = []
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def stream_from(port: int, pid: int, seconds: float) -> None:
    """Read an answer of the API as it comes, once there is a server, for a while."""
    body = json.dumps({"model": "tiny-target-a-f16", "stream": True, "max_tokens": 400,
                       "messages": [{"role": "user", "content": "Count to one hundred."}]}).encode()  # fmt: skip
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    give_up = time.monotonic() + 120
    while psutil.pid_exists(pid) and time.monotonic() < give_up:
        with suppress(OSError, http.client.HTTPException), urllib.request.urlopen(request, timeout=60) as reply:
            until = time.monotonic() + seconds
            while time.monotonic() < until and reply.readline():
                pass
            return
        time.sleep(0.05)


def kill_many(tmp_path: Path, times: int, longest: float) -> None:
    home = tmp_path / "home"
    victims, numbers, worked = Victims(home, tmp_path / "log.txt"), random.Random(times), 0
    try:
        for number in range(times):
            mode = MODES[number % len(MODES)]
            behind = "ready" if mode != "page" else numbers.choice(("victim", "ready", "shown")) if number else "shown"
            worked += victims.kill_one(mode, number, behind, numbers.uniform(0.0, longest))
            check(find_data_home(home), victims.said)
    finally:
        victims.close()
    said = victims.said
    print(
        f"{times} kills, {worked} behind an answer, {len(said.shown)} answers all there; refused: {set(said.refused)}"
    )
    assert worked
    assert said.shown


def kill_publishers(tmp_path: Path, times: int) -> None:
    """What was published is served, whole, and merges as it would anew; nothing is left of what was not."""
    home, made, numbers = find_data_home(tmp_path / "home"), tmp_path / "made.gguf", random.Random(times)
    victims = Victims(home.root, tmp_path / "log.txt")
    drafter, adapters = ROOT / "models" / "tiny-drafter-f16.gguf", learned_in(home)
    try:
        for number in range(times):
            behind, longest = (("publishing", 0.01), ("published", 0.2))[number % 2]
            victims.kill_one("publish", number, behind, numbers.uniform(0.0, longest))
            check(home, victims.said)
            choice = adapters.choose(drafter, VOCABULARY)
            store, published = choice.learned_in, victims.said.published
            assert store.pointer.highest >= max(published, default=0)
            store.prune()
            assert len(store.versions()) <= KEPT + 1
            assert list(unfinished(store.folder)) == []
            assert not (store.folder / FILE).exists() or read_candidate(store.folder) is not None
            if choice.version is not None:
                assert choice.file.read_bytes() == write_merged(drafter, choice.version.adapter, made).read_bytes()
    finally:
        victims.close()
    print(f"{times} kills, {len(victims.said.published)} versions published")
    assert len(victims.said.published) >= times // 2  # half of them are killed behind one


@pytest.mark.timeout(280)
def test_a_kill_while_learning_publishes_loses_nothing(tmp_path):
    kill_publishers(tmp_path, 6)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_kills_while_learning_publishes_lose_nothing(tmp_path, pytestconfig):
    kill_publishers(tmp_path, pytestconfig.getoption("--kills"))


@pytest.mark.timeout(280)
def test_a_kill_loses_nothing(tmp_path):
    kill_many(tmp_path, len(MODES), 2.0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_kills_lose_nothing(tmp_path, pytestconfig):
    kill_many(tmp_path, pytestconfig.getoption("--kills"), 4.0)
