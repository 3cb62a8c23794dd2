"""How far the loading of a model has come: told where it is done, to whoever watches the thread, who may call it off.

Loading goes through many hands, and none of them has to pass on who wants to know. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import ModelError


class CalledOff(ModelError):
    """Somebody who watched did not want it any more."""


class Overtaken(ModelError):
    """Another one was begun before this one was there."""


@dataclass(slots=True)
class Progress:
    """path: what is loaded; doing: what is being done; share: how much of that is, None where that cannot be told;
    final: too far to be called off; interrupt: ends what is being done at once, where that can be ended."""

    path: Path
    doing: str = ""
    share: float | None = None
    final: bool = False
    called_off: bool = False
    interrupt: Callable[[], None] | None = None

    def call_off(self) -> None:
        """End it as soon as possible, unless it is too far."""
        self.called_off = True
        interrupt = self.interrupt
        if interrupt is not None:
            interrupt()

    def go_on(self) -> bool:
        return self.final or not self.called_off


class Newest:
    """Of what is begun one behind the other only the newest counts: it calls off the one before."""

    def __init__(self) -> None:
        self._last: Progress | None = None

    def begin(self, path: Path) -> Progress:
        before, self._last = self._last, Progress(path)
        if before is not None:
            before.call_off()
        return self._last

    @property
    def coming(self) -> Path | None:
        """What is to be there soon: begun, not over, and not called off."""
        return self._last.path if self._last is not None and self._last.go_on() else None

    @contextmanager
    def unless_overtaken(self, progress: Progress) -> Iterator[None]:
        """The block, if this is still the newest; Overtaken if it is not, or is no longer at its end."""
        self._check(progress)
        try:
            yield
        finally:
            self._check(progress)
            self._last = None

    def _check(self, progress: Progress) -> None:
        if self._last is not progress:
            raise Overtaken(f"Another model than {progress.path.stem} was chosen meanwhile.")


_watched: ContextVar[Progress | None] = ContextVar("watched", default=None)


@contextmanager
def watched(progress: Progress | None) -> Iterator[None]:
    """What is told in the block, by this thread, goes there; None: to nobody."""
    before = _watched.set(progress)
    try:
        yield
    finally:
        _watched.reset(before)


def tell(doing: str, share: float | None = None) -> None:
    """What is being done from now on. CalledOff if it was."""
    if not told(doing, share) and (progress := _watched.get()) is not None:
        raise CalledOff(f"{progress.path.stem} was not loaded: that was called off.")


def told(doing: str, share: float | None = None) -> bool:
    """Likewise, for libraries that call: False if it was called off."""
    progress = _watched.get()
    if progress is None:
        return True
    progress.doing, progress.share = doing, share
    return progress.go_on()


def settle() -> None:
    """From here on it cannot be called off: what was there before is let go of. CalledOff if it just was."""
    if (progress := _watched.get()) is not None:
        tell(progress.doing, progress.share)
        progress.final = True


@contextmanager
def interruptible(end: Callable[[], None]) -> Iterator[None]:
    """What goes on in the block ends early by `end`; CalledOff then."""
    progress = _watched.get()
    if progress is None:
        yield
        return
    progress.interrupt = end
    try:
        yield
    finally:
        progress.interrupt = None
    tell(progress.doing, progress.share)
