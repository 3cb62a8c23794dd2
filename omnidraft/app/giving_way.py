"""Long work that gives way: it stands still while somebody is answered, and goes on behind it. Knows no models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET = 2.0  # seconds behind somebody's answer before the work goes on: another question may come
Ended = Callable[[], bool]


class GivingWay:
    """Between those who ask something and long work, one at a time, which has a thread of its own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0  # blocks that the work stands still for
        self._cut: Callable[[], object] | None = None  # ends what the work is at

    @property
    def wanted(self) -> bool:
        """Whether the work should stand still."""
        return self._asked > 0

    @property
    def at_work(self) -> bool:
        return self._cut is not None

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """The work stands still in the block. May be nested."""
        with self._changed:
            self._asked += 1
            if self._cut is not None:
                self._cut()
            self._changed.wait_for(lambda: self._cut is None)
        try:
            yield
        finally:
            with self._changed:
                self._asked -= 1
                self._changed.notify_all()

    @contextmanager
    def working(self, cut: Callable[[], object], ended: Ended) -> Iterator[None]:
        """By the work's thread: what `cut` ends from any thread, and is waited for; begins once nobody is asking."""
        self._go_on(cut, ended, 0.0)
        try:
            yield
        finally:
            self._stand_still()

    def let_by(self, cut: Callable[[], object], ended: Ended) -> None:
        """By the work's thread, inside `working`: stand still while that is wanted, unless the work has `ended`."""
        self._stand_still()
        self._go_on(cut, ended, QUIET)

    def look(self) -> None:
        """The work has ended, perhaps while it stands still."""
        with self._changed:
            self._changed.notify_all()

    def _stand_still(self) -> None:
        with self._changed:
            self._cut = None
            self._changed.notify_all()

    def _go_on(self, cut: Callable[[], object], ended: Ended, quiet: float) -> None:
        """quiet: seconds without anybody who asks."""
        with self._changed:
            while self._asked or (self._changed.wait_for(lambda: self._asked or ended(), quiet) and not ended()):
                self._changed.wait_for(lambda: not self._asked)
            self._cut = cut
