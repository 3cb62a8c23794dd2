"""All that differs between systems about processes: groups, pausing, ending, limits, priority, memory used.

Linux and macOS have signals and limits; Windows ends processes through psutil, and has no such limits, so that there
only clocks and priorities hold. `SYSTEM` says which branch is taken. Knows no program of ours.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import asyncio

SYSTEM = sys.platform
_NO_WINDOW = 0x08000000  # subprocess.CREATE_NO_WINDOW, which other systems do not define
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


def _windows() -> bool:
    return SYSTEM == "win32"


def own_group() -> dict[str, Any]:
    """Options of Popen for a child that leads a group of its own, and hears nothing of Ctrl+C here."""
    return {"creationflags": _NO_WINDOW} if _windows() else {"process_group": 0}


def end_group(process: subprocess.Popen[Any] | asyncio.subprocess.Process) -> None:
    """End a child that was started with `own_group` at once, with all it started."""
    if _windows():
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        with suppress(OSError):
            process.kill()
        return
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def suspend(pid: int) -> None:
    """Stop a process where it is; nothing happens to one that is gone."""
    with suppress(psutil.Error):
        psutil.Process(pid).suspend()


def resume(pid: int) -> None:
    """Let a suspended process go on."""
    with suppress(psutil.Error):
        psutil.Process(pid).resume()


def lower_priority() -> None:
    """Let everything else on this machine come first."""
    if _windows():
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        os.nice(10)


MEMORY_FOLDER = Path("/dev/shm")
NO_MEMORY_FOLDER = (
    "This system has no folder that lies in memory (/dev/shm), so what models are opened from would be readable on the "
    "disk: use the system's own disk encryption instead (FileVault, BitLocker)."
)


def memory_folder() -> Path | None:
    """Where files can be opened by name and are not on the disk; None where the system has no such place."""
    return MEMORY_FOLDER if SYSTEM == "linux" and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK) else None


def leave_no_core() -> None:
    """No copy of this process's memory shall be written to the disk when it aborts: conversations are in it."""
    _limit("RLIMIT_CORE", 0)


def limit_processor(seconds: float) -> None:
    """Let the system end this process when it has computed that long on every core."""
    _limit("RLIMIT_CPU", int(seconds * (os.cpu_count() or 1)) + 1)


def limit_memory(count: int) -> None:
    """Let the system refuse this process more bytes; on Linux only, for elsewhere that counts what is mapped, too."""
    if SYSTEM == "linux":
        _limit("RLIMIT_DATA", count)


def give_back_memory(block: int) -> None:
    """Have blocks of `block` bytes and more returned to the system as soon as they are free, where the C library can be
    told so: glibc keeps them for the next one of their size, which may be a hundred megabytes that nobody uses."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, block)


def release_memory() -> None:
    """Give the system back what is free, where the C library can be told so: behind a large model glibc keeps a hundred
    megabytes of small blocks for later ones."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_memory() -> int:
    """Bytes this process held at most."""
    if _windows():
        return int(psutil.Process().memory_info().peak_wset)
    try:  # not `ru_maxrss`, which begins with what the parent held
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if SYSTEM == "darwin" else 1024)


def _limit(name: str, value: int) -> None:
    if _windows():
        return
    with suppress(ImportError, ValueError, OSError, AttributeError):
        import resource

        kind = getattr(resource, name)
        resource.setrlimit(kind, (value, value))
