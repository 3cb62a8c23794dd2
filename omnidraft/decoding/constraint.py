"""Draws under a constraint: at every verified position only what may follow competes, the rest of the rules unchanged.

The constrained distribution is the target's own (penalised, filtered, tempered) restricted to the allowed tokens and
renormalised; if no filtered token is allowed, all allowed tokens compete. Looking a whole vocabulary over is slow, so
the unconstrained draw comes first and stands if it is allowed. Where it is refused, another draw with *fresh* noise
decides: P(t) = p(t) + (1 - p(A)) p(t) / p(A) = p(t) / p(A) for t in the allowed set A, so nothing is biased. All noise
is a function of seed and position: the text is the same with and without a drafter.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from omnidraft.decoding.sampling import Sampler, gumbel
from omnidraft.decoding.topk import top_ids
from omnidraft.errors import ModelError
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import Vocabulary

_LIKELY = 64  # ids asked about together before the whole vocabulary is
_TRIES = 4  # draws that may be refused before the whole vocabulary is looked over
_FRESH = 0x9E3779B97F4A7C15  # between the seeds of one position's draws
_MASK = (1 << 64) - 1
_NOTHING = "The grammar allows nothing here that this model's vocabulary can say."
_OUT = np.float32(-1e30)  # probability 0, and still a number to subtract from


class Constraint(Protocol):
    """What may follow the verified tokens; it moves with them alone."""

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        """(n,) bool for token ids (n,): whether each may come next. An end only where the whole may end."""
        ...

    def mask(self) -> np.ndarray:
        """(V,) bool: the same for the whole vocabulary. Not to be changed."""
        ...

    def only(self) -> int | None:
        """The token that must come next, if that is known without asking for others."""
        ...

    def accept(self, token: int) -> None:
        """`token`, which is allowed, has been verified."""
        ...

    def forced(self) -> list[int]:
        """Token ids that spell what must come next, as far as there is no choice; to be proposed, for tokens can be cut
        otherwise. They may end with an end of generation."""
        ...

    def follows(self, data: bytes, end: bool = False) -> bool:
        """Whether these bytes may come next, and (`end`) the answer may end behind them."""
        ...


class ConstrainedSampler(Sampler):
    """A sampler whose every draw stands: each one also moves the constraint."""

    def __init__(
        self,
        settings: SamplingSettings,
        vocabulary: Vocabulary,
        seed: int,
        capture: int,
        constraint: Constraint,
        **more: Any,
    ) -> None:
        super().__init__(settings, vocabulary, seed, capture, **more)
        self._constraint = constraint

    def draw(self, row: np.ndarray, position: int) -> int:
        """The token at `position`; ModelError if nothing this vocabulary can say is allowed."""
        drawn = self._drawn(row, position)
        self._constraint.accept(drawn)
        return drawn

    def _drawn(self, row: np.ndarray, position: int) -> int:
        if (only := self._constraint.only()) is not None:
            return only
        drawn = super().draw(row, position)
        if self._allows(drawn):
            return drawn
        return self._likely(row) if self.greedy else self._redraw(row, position, drawn)

    def _allows(self, token: int) -> bool:
        return bool(self._constraint.allowed(np.array([token]))[0])

    def _likely(self, row: np.ndarray) -> int:
        """The most probable allowed token. A mask of the whole row is made only if none of the first few is allowed."""
        found = top_ids(row, _LIKELY)
        kept = found[self._constraint.allowed(found)]
        if not len(kept):
            ids = np.flatnonzero(self._constraint.mask())
            if not len(ids):
                raise ModelError(_NOTHING)
            kept = ids[top_ids(row[ids], 1)]
        return int(kept[0])

    def _redraw(self, row: np.ndarray, position: int, refused: int) -> int:
        head = self._head(row)
        if not head.rest:
            kept = self._constraint.allowed(head.ids)
            if kept.any():
                return self._among(head.ids[kept], head.logits[kept], position)
            self._mask(row)
            return self._again(row, position, 1)
        return self._without_refused(row, position, refused)

    def _among(self, ids: np.ndarray, logits: np.ndarray, position: int) -> int:
        """One of these few candidates with fresh noise."""
        scores = logits / self.settings.temperature + gumbel(self._seed_of(1), position, ids)
        return int(ids[int(scores.argmax())])

    def _without_refused(self, row: np.ndarray, position: int, drawn: int) -> int:
        """Draw without replacement until something is allowed: the first such token has the restricted distribution."""
        for attempt in range(1, _TRIES):
            self._leave_out(row, np.array([drawn]))
            drawn = self._again(row, position, attempt)
            if self._allows(drawn):
                return drawn
        self._mask(row)
        return self._again(row, position, _TRIES)

    def _again(self, row: np.ndarray, position: int, attempt: int) -> int:
        """Another draw, with other noise."""
        seed, self.seed = self.seed, self._seed_of(attempt)
        try:
            return super().draw(row, position)
        finally:
            self.seed = seed

    def _seed_of(self, attempt: int) -> int:
        return (self.seed + attempt * _FRESH) & _MASK

    def _mask(self, row: np.ndarray) -> None:
        self._leave_out(row, np.flatnonzero(~self._constraint.mask()))
        if row.max() <= _OUT:
            raise ModelError(_NOTHING)

    def _leave_out(self, row: np.ndarray, ids: np.ndarray) -> None:
        row[ids] = _OUT
        self._top = self._mass = None  # of the row as it was
