"""How many threads computing should use on this machine."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_WORTH_A_THREAD = 3 << 20  # bytes of weights read
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@cache
def physical_cores() -> int:
    """Physical cores this process may use, at least 1.

    Two hardware threads of one core share the arithmetic units that matrix products keep busy, so a second one only
    adds waiting. A container's processor quota counts too: threads beyond it are put to sleep in the middle of a pass.
    """
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        allowed = set(range(os.cpu_count() or 1))
    siblings = {_read(_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu) for cpu in allowed}
    quota, _, period = _read(_QUOTA).partition(" ")
    if quota.isdigit() and period.isdigit():
        return max(1, min(len(siblings), math.ceil(int(quota) / int(period))))
    return max(1, len(siblings))


def step_threads(weights: int) -> int:
    """How many threads a pass of a few tokens is worth, which reads `weights` bytes.

    Threads wait for each other behind every operation, and whoever shares the machine makes them wait long: steps of
    a drafter of 2.4 MB took 0.28 ms with one thread and 0.31 with two while the second core was free, and 0.4 against
    65 while it was not.
    """
    return min(physical_cores(), max(1, round(weights / _WORTH_A_THREAD)))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
