"""What the app takes while nobody does anything: next to nothing, for the processor belongs to the model."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.ui.conftest import Server

SECONDS = 3


def wakes(server: Server) -> int:
    """How often any thread of the app went to sleep since it started, and so how often it woke."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    found = (re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M) for task in tasks)
    return sum(int(one[1]) for one in found if one)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counted in /proc")
def test_an_app_that_nobody_uses_sleeps(server):
    time.sleep(1)
    before = wakes(server)
    time.sleep(SECONDS)
    assert (wakes(server) - before) / SECONDS < 150
