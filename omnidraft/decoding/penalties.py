"""What makes tokens that were said less likely, on one row of the target's logits.

The repetition penalty looks at the LAST tokens of the whole context, as llama.cpp does. The presence and frequency
penalties are OpenAI's: they look at the answer alone, z_t - presence [c_t > 0] - frequency c_t with c_t how often the
answer has said t. All see verified tokens only, so drafting changes nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnidraft.backends.picture_ids import FIRST
from omnidraft.settings.config import SamplingSettings

LAST = 64  # tokens that the repetition penalty looks at


class Penalties:
    """One answer's penalties. before: how many of the first `recent` ids are not the answer's own."""

    def __init__(self, settings: SamplingSettings, before: int = 0) -> None:
        self._repeat = settings.repeat_penalty
        self._presence, self._frequency = settings.presence_penalty, settings.frequency_penalty
        self._before = before
        self._repeats = self._repeat != 1.0
        self._counts = self._presence != 0.0 or self._frequency != 0.0

    def apply(self, row: np.ndarray, recent: Sequence[int]) -> bool:
        """Penalise `row` (V,) in place behind the verified ids `recent`, newest last; False if nothing changed."""
        said = recent[self._before :] if self._counts else ()
        repeats = self._repeats and len(recent) > 0
        if repeats:
            ids = np.unique(np.asarray(recent[-LAST:], np.int64))
            logits = row[ids]
            row[ids] = np.where(logits > 0, logits / self._repeat, logits * self._repeat)
        if len(said):
            ids, counts = np.unique(np.asarray(said, np.int64), return_counts=True)
            row[ids] -= (self._presence + self._frequency * counts).astype(np.float32)
        return repeats or len(said) > 0


def looked_at(prompt: Sequence[int], written: int) -> tuple[list[int], int]:
    """What of `prompt`, whose last `written` ids are the answer's own, the penalties see: (ids, how many are not its).

    Pictures are nothing that could be said again. The result grows with the answer; see `Penalties`.
    """
    length = min(len(prompt), max(LAST, written))
    seen = [id for id in prompt[len(prompt) - length :] if id < FIRST]
    return seen, len(seen) - written
