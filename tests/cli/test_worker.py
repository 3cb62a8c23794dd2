"""`python -m omnidraft worker`: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from omnidraft.__main__ import main
from omnidraft.backends.remote.workers import probe
from omnidraft.settings.fields import Address
from tests.lent import needs_rpc
from tests.serving import free_port
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments: str, home: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMNIDRAFT_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-m", "omnidraft", "worker", *arguments], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@needs_rpc
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_lends_and_who_comes_and_ends_cleanly(tmp_path, end):
    address = Address("127.0.0.1", free_port())
    worker = started("--listen", str(address), "--memory", "300MB", "--threads", "1", home=tmp_path / "home")
    try:
        said = worker.stdout.readline()
        assert said.startswith("Lending CPU (")
        assert "300 MB), 1 threads" in said
        assert str(address) in said
        inner = psutil.Process(worker.pid).children()
        assert len(inner) == 1
        probe(address, 60)
        assert "Connected: " in worker.stdout.readline()
        assert worker.stdout.readline().strip().endswith("Disconnected.")
        worker.send_signal(end)
        assert worker.wait(60) == 0
        assert worker.stdout.read().strip() == "Ended."
        assert not inner[0].is_running()
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    assert not (tmp_path / "home").exists(), "it has no business with the data home"


@needs_rpc
def test_the_serving_process_ends_with_the_command(tmp_path):
    worker = started("--listen", f"127.0.0.1:{free_port()}", home=tmp_path / "home")
    worker.stdout.readline()
    inner = psutil.Process(worker.pid).children()
    worker.kill()
    worker.wait()
    worker.stdout.close()
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in inner))


@needs_rpc
def test_a_port_that_is_taken(tmp_path, capsys):
    port = free_port()
    worker = started("--listen", f"127.0.0.1:{port}", home=tmp_path)
    try:
        worker.stdout.readline()
        assert main(["worker", "--listen", f"127.0.0.1:{port}"]) == 2
        assert f"something else listens at 127.0.0.1:{port}" in capsys.readouterr().err
    finally:
        worker.terminate()
        worker.wait(60)
        worker.stdout.close()


@pytest.mark.parametrize("listen", ["0.0.0.0:50052", "192.168.1.5:50052", "8.8.8.8:1"])
def test_other_addresses_need_a_trusted_network_and_the_refusal_shows_the_way(listen, capsys):
    assert main(["worker", "--listen", listen]) == 2
    said = capsys.readouterr().err
    port = listen.rpartition(":")[2]
    assert f"ssh -N -L {port}:127.0.0.1:{port} " in said
    assert "--trusted-network" in said


@pytest.mark.parametrize(
    "arguments", [["--threads", "-1"], ["--memory", "much"], ["--memory", "1MB"], ["--listen", "x y"]]
)
def test_wrong_arguments(arguments, capsys):
    assert main(["worker", *arguments]) == 2
    assert capsys.readouterr().err.startswith("omnidraft: ")
