"""`app.py --window`: the server runs as long as the window does. What stands in for pywebview looks at the page and
closes: nothing here needs a screen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from omnidraft.storage.paths import PROGRAM

STAND_IN = """
import urllib.request
asked = []
def create_window(title, url, **size):
    asked.append(url)
def start():
    with urllib.request.urlopen(asked[0], timeout=60) as page:
        print("the window shows OmniDraft:", "OmniDraft" in page.read().decode(), flush=True)
"""


def start(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, str(PROGRAM / "app.py"), "--window", "--port", port, "--data-dir", str(folder / "home")]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment})


def test_the_program_ends_with_its_window(tmp_path):
    (tmp_path / "webview.py").write_text(STAND_IN)
    done = start(tmp_path, PYTHONPATH=str(tmp_path))
    assert "the window shows OmniDraft: True" in done.stdout, done.stderr
    assert done.returncode == 0


def test_without_a_package_for_windows_it_says_so(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'webview' else find(name, *more)\n"
    )
    done = start(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install pywebview" in done.stderr
