"""Converts copies of a home and is killed at every n-th step of it: `killed.py TEMPLATE FOLDER WAY EVERY`.

WAY: "on" or "off". Every change to the file system that counts, a rename, removal or flush, is a step. Libraries are
loaded once; each attempt is a fork. Prints the folders in which a conversion was killed, then how many steps a whole
one has.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from omnidraft.storage.encryption import make_plain
from tests.storage.encryption.homes import asked, opened

STEPS = ("rename", "replace", "unlink", "rmdir", "fsync")


def count(kill_at: int, names: tuple[str, ...] = STEPS) -> list[int]:
    """Kill this process before step `kill_at` (from 1); how many there were, in the only element."""
    seen = [0]

    def counted(do: Callable) -> Callable:
        def step(*args, **options):
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return do(*args, **options)

        return step

    for name in names:
        setattr(os, name, counted(getattr(os, name)))
    return seen


def convert(root: Path, way: str) -> None:
    if way == "on":
        with opened(root, encrypt=True):
            pass
    else:
        make_plain(root, asked())


def attempt(template: Path, root: Path, way: str, kill_at: int) -> bool:
    """Whether it was killed."""
    shutil.copytree(template, root)
    if (child := os.fork()) == 0:
        seen = count(kill_at)
        convert(root, way)
        (root.parent / "steps").write_text(str(seen[0]))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(template: Path, folder: Path, way: str, every: int) -> None:
    number = 1
    while attempt(template, folder / f"home-{number}", way, number):
        print(folder / f"home-{number}", flush=True)
        number += every
    print((folder / "steps").read_text(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
