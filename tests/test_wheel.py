"""The wheel holds the whole program: installed alone, away from the checkout, it answers and serves its pages."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the installed wheel; the packages it needs are this environment's."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=200)
    wheel = next(folder.glob("omnidraft-*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), wheel], check=True, timeout=200)
    return folder / "site"


@pytest.fixture
def run(installed: Path, tmp_path: Path):
    home = {"OMNIDRAFT_HOME": str(tmp_path / "home"), "BROWSER": "true"}  # which opens nothing
    environment = {**os.environ, "PYTHONPATH": str(installed), **home}

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(installed / "bin" / "omnidraft"), *arguments]
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def test_the_command_answers_with_a_bundled_model(run, installed: Path):
    answered = run("chat", "--prompt", "What is 23 + 45?", "--temperature", "0", "--ephemeral")
    out, err = answered.communicate(timeout=200)
    assert answered.returncode == 0, err
    assert "68" in out
    listed, _ = run("models").communicate(timeout=100)
    assert str(installed) in listed
    assert str(ROOT) not in listed


@pytest.mark.slow
def test_without_a_command_the_app_is_served(run):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = run("--port", str(port))
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and app.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as page:
                    assert "OmniDraft" in page.read().decode()
                    return
            except OSError:
                time.sleep(0.5)
        pytest.fail(f"the app did not answer: {app.stderr.read() if app.poll() is not None else 'still starting'}")
    finally:
        app.terminate()
        app.wait(timeout=30)
