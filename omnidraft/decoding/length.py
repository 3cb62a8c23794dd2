"""When to stop drafting: the policy's side of a round, and the policies that need no measurements.

A policy is told when a round begins, sees each piece that is drawn, says whether one more is worth its time, and
learns from how the round went. The one that goes by measured cost is in adaptive.py.
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
    """Decides who drafts in a round and how much."""

    longest: int
    """No round drafts more pieces, or looks up more tokens, than this."""

    @property
    def state(self) -> str:
        """In words, whether drafting goes on by measured speed; "" where that is not measured."""
        ...

    def is_plain(self) -> bool:
        """Whether this round, if there is nothing to copy, is plain without another thought: it is then not begun, only
        observed. Asked in every round, so it must cost next to nothing."""
        ...

    def begin(self, behind: int, match: Match) -> int:
        """A round begins; returns how many looked-up tokens to propose, 0 to leave the round to the drafter, `PLAIN`
        for neither.

        behind: ids the drafter has yet to read; match: what the lookup found.
        """
        ...

    def more(self, pieces: Sequence[int]) -> bool:
        """Whether to draft another piece behind `pieces`; asked before each one, the first included."""
        ...

    def drew(self, row: np.ndarray, piece: int) -> None:
        """`piece` was drawn from the drafter's logits `row` (V_drafter,), undraftable pieces masked."""
        ...

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        """Whether to propose what was drafted; if not, it is only compared with what the target says (`withheld`). Not
        asked by rejection sampling, where a decision that depends on the pieces themselves would bias the text."""
        ...

    def withheld(self, guess: Sequence[Proposal], said: int) -> None:
        """A draft that was not proposed meant `guess`; the target said the id `said`."""
        ...

    def compared(self, right: bool) -> None:
        """A copy that was not proposed would have been `right` about the next token, or not."""
        ...

    def observe(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """The round has ended; `proposals` is what was sent to verification."""
        ...

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """The same of what was drafted behind proposals of others; the round's times are no draft's."""
        ...

    def finish(self) -> None:
        """The answer has ended."""
        ...


class FixedLength:
    """Draft `length` pieces in every round; never look up."""

    state = ""

    def __init__(self, length: int) -> None:
        self.longest = length

    def is_plain(self) -> bool:
        return False

    def begin(self, behind: int, match: Match) -> int:
        return 0

    def more(self, pieces: Sequence[int]) -> bool:
        return len(pieces) < self.longest

    def drew(self, row: np.ndarray, piece: int) -> None:
        pass

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        return True

    def withheld(self, guess: Sequence[Proposal], said: int) -> None:
        pass

    def compared(self, right: bool) -> None:
        pass

    def observe(self, done: Round, proposals: Sequence[Proposal]) -> None:
        pass

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        pass

    def finish(self) -> None:
        pass
