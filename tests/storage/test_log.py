"""What the program writes to the terminal."""

from __future__ import annotations

import subprocess
import sys

SAYS = """
import logging
from omnidraft.storage.log import begin_log
begin_log()
for name in ("gguf.gguf_writer", "httpx", "omnidraft.app"):
    logging.getLogger(name).info("%s speaks", name)
"""


def test_libraries_tell_the_terminal_nothing_of_their_work():
    said = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True).stderr
    assert [line.split()[1] for line in said.splitlines()] == ["omnidraft.app:"]
