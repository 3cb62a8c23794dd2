"""When to stop drafting. A policy sees the pieces drafted so far and says whether one more is worth its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from omnidraft.config import DraftSettings
from omnidraft.decoding.events import Round


class LengthPolicy(Protocol):
    """Decides how many pieces a round drafts and learns from how rounds went."""

    longest: int
    """No round drafts more pieces than this."""

    def more(self, pieces: Sequence[int]) -> bool:
        """Whether to draft another piece behind `pieces`; asked before each one, the first included."""
        ...

    def observe(self, done: Round) -> None:
        """A round has ended."""
        ...


class FixedLength:
    """Draft `length` pieces in every round."""

    def __init__(self, length: int) -> None:
        self.longest = length

    def more(self, pieces: Sequence[int]) -> bool:
        return len(pieces) < self.longest

    def observe(self, done: Round) -> None:
        pass


def make_policy(settings: DraftSettings) -> LengthPolicy:
    """The policy a user's settings ask for."""
    return FixedLength(settings.length)
