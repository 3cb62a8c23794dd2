"""Programs that compute beside what is measured: processes of ours that spin and read memory, ended with the block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_BUSY = """import ctypes, os
size = 16 << 20  # more than the caches hold
one, other = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
parent = os.getppid()
print("busy", flush=True)
while os.getppid() == parent:  # not for ever, if who began it is killed
    for _ in range(50):
        ctypes.memmove(one, other, size)
        sum(range(20_000))
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """`count` processes that take what they get of processor and memory, from the beginning to the end of the block."""
    running: list[subprocess.Popen] = []
    try:
        for _ in range(count):
            running.append(subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE))
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()  # it is at work
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
