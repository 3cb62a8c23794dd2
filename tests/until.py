"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

PATIENCE = 240.0  # seconds; the machine may be busy with something else


def until(happened: Callable[[], object], what: str = "it", seconds: float = PATIENCE) -> None:
    """Wait until `happened()`."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.01)
