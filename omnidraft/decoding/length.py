"""When to stop drafting: the policy's side of a round, and the one that needs no measured times.

A policy is told when a round begins, sees each piece that is drawn, says whether one more is worth its time, and
learns from how the round went. The one that goes by measured time is in decision.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import Match
from omnidraft.vocab import Proposal

PLAIN = -1


class LengthPolicy(Protocol):
    """Decides who drafts in a round and how much. longest: no round drafts more pieces, or copies more tokens. state:
    in words, whether drafting goes on by measured time, "" where that is not measured. rests: the round is plain
    without another thought, and not begun, unless there is something to copy."""

    longest: int

    @property
    def state(self) -> str: ...

    @property
    def rests(self) -> bool: ...

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        """A round begins; returns how many looked-up tokens to propose, 0 to leave it to the drafter, `PLAIN` for
        neither. behind: ids the drafter has yet to read; carried: pieces of the last round that are proposed anyway."""
        ...

    def more(self, pieces: Sequence[int]) -> bool:
        """Whether to draft another piece behind `pieces`; asked before each one, the first included. May depend on
        earlier pieces alone, or rejection sampling is biased."""
        ...

    def drew(self, row: np.ndarray, piece: int) -> None:
        """`piece` was drawn from the drafter's logits `row` (V_drafter,), undraftable pieces masked."""
        ...

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        """Whether to propose what was drafted. Not asked by rejection sampling, as it depends on the pieces."""
        ...

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        """The round has ended; `proposals` is what was verified, `said` the id of the first token it made."""
        ...

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """The same of what was drafted behind proposals of others; the round's times are no draft's."""
        ...

    def finish(self) -> None:
        """The answer has ended."""
        ...


class FixedLength:
    """Draft `length` pieces in every round; never look up."""

    state, rests = "", False

    def __init__(self, length: int) -> None:
        self.longest = length

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        return 0

    def more(self, pieces: Sequence[int]) -> bool:
        return len(pieces) < self.longest

    def drew(self, row: np.ndarray, piece: int) -> None:
        pass

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        return True

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        pass

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        pass

    def finish(self) -> None:
        pass
