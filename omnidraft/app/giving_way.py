"""Long work that gives way: it stands still while somebody is answered, and goes on behind it. Knows no models."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET = 2.0  # seconds behind somebody's answer before the work goes on: another question may come
LOOK_EVERY = 0.1  # seconds between looks at whether others are still at work


class GivingWay:
    """Of one work, which has a thread of its own. others: whether somebody is at work; cut: ends what
    the work is at, from any thread."""

    def __init__(self, others: Callable[[], bool], cut: Callable[[], object]) -> None:
        self._others, self._cut = others, cut
        self._changed = threading.Condition()
        self._asked = 0  # blocks that the work stands still for
        self._at_work = False

    @property
    def wanted(self) -> bool:
        """Whether the work should stand still."""
        return self._asked > 0 or self._others()

    @property
    def at_work(self) -> bool:
        return self._at_work

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """The work stands still in the block, and behind it as long as others are at work. May be nested."""
        with self._changed:
            self._asked += 1
            if self._at_work:
                self._cut()
            self._changed.wait_for(lambda: not self._at_work)
        try:
            yield
        finally:
            with self._changed:
                self._asked -= 1
                self._changed.notify_all()

    @contextmanager
    def working(self, ended: Callable[[], bool]) -> Iterator[None]:
        """By the work's thread: what is cut, and waited for; begins when nobody else is at work, or it has `ended`."""
        self._go_on(ended, 0.0)
        try:
            yield
        finally:
            self._stand_still()

    def let_by(self, ended: Callable[[], bool]) -> None:
        """By the work's thread, inside `working`: stand still while that is wanted, unless the work has `ended`."""
        self._stand_still()
        self._go_on(ended, QUIET)

    def _stand_still(self) -> None:
        with self._changed:
            self._at_work = False
            self._changed.notify_all()

    def _go_on(self, ended: Callable[[], bool], quiet: float) -> None:
        """quiet: seconds without anybody else."""
        with self._changed:
            since = time.monotonic()
            while self._asked or not ended():
                now = time.monotonic()
                since = now if self.wanted else since
                if not self.wanted and now - since >= quiet:
                    break
                self._changed.wait(LOOK_EVERY)
            self._at_work = True
