"""Processes in encrypted homes: drift runs in a child, the app with what a browser sends, programs that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from omnidraft.lab.drift import Plan, Schedule, Segment
from omnidraft.lab.drift_lab import DriftLab
from omnidraft.processes import system
from omnidraft.storage.encryption.passphrase import VARIABLE
from omnidraft.storage.vault import held
from tests.serving import free_port
from tests.storage.encryption.homes import MARKS, PASSPHRASE, found, opened

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

ROOT = Path(__file__).resolve().parents[3]
SECRET = b"Zanzibarquux"


@pytest.mark.parametrize("learning", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_drift_run_works_with_the_key_of_its_part_alone(tmp_path, models, learning):
    number = 12 if learning else 2
    prompts = tmp_path / "mine.txt"
    prompts.write_text("".join(f"Zanzibarquux has {n} apples. How many?\n" for n in range(number)))
    with opened(tmp_path / "home", encrypt=True) as home:
        lab = DriftLab(home, home.profile())
        schedule = Schedule("mine", (Segment("tiny-target-a", str(prompts), number),))
        targets = {"tiny-target-a": str(models / "tiny-target-a-f16.gguf")}
        plan = Plan(schedule, targets, str(models / "tiny-drafter-f16.gguf"), learning, 12, 1)
        lab.start(plan)
        child = psutil.Process(lab._child.pid)
        visible = " ".join([*child.cmdline(), *child.environ().values()])
        assert held(home.root).key("drift").hex() not in visible
        while lab.running:
            assert not found(home.root, [SECRET, b"tiny-target", *MARKS])
            time.sleep(0.1)
        assert lab.latest.error == ""
        assert (lab.latest.status, len(lab.latest.points)) == ("finished", number)


def sent(port: int, app: subprocess.Popen) -> bytes:
    """A file sent as the page sends it; the answer, once the app listens."""
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n' + SECRET + b"\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/gradio_api/upload", part, headers)
    give_up = time.monotonic() + 240
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read()
        except OSError:
            assert app.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.2)


def test_the_app_serves_an_encrypted_home_and_leaves_nothing(tmp_path):
    port, root = free_port(), tmp_path / "home"
    command = [sys.executable, "app.py", "--data-dir", str(root), "--port", str(port), "--encrypt"]
    with open(tmp_path / "log", "w") as log:
        app = subprocess.Popen(command, cwd=ROOT, env={**os.environ, VARIABLE: PASSPHRASE}, stdout=log, stderr=log)
    try:
        memory = Path("/dev/shm")
        upload = sent(port, app)
        (folder,) = memory.glob(f"omnidraft-{app.pid}-*")
        assert str(folder).encode() in upload
        assert not found(root, [SECRET, *MARKS])
    finally:
        app.send_signal(signal.SIGINT)
        app.wait(60)
        print(log := (tmp_path / "log").read_text())
    assert not folder.exists()
    assert f"Data: {root}, encrypted" in log
    assert PASSPHRASE not in log
