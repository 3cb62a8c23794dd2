"""A stand-in for a target whose answer is known: its logits point to the recorded token at every position.

What a draft length would have drafted, proposed and kept of an answer can be counted with it at the price of the
drafter alone, because a target's text does not depend on who drafts. It knows nothing of time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnidraft.errors import ModelError
from omnidraft.vocab import Vocabulary

_CERTAIN = 60.0  # logits above the rest: exp(-60) of 128k ids is nothing, also with noise at T = 1


class RecordedTarget:
    """A `LanguageModel` that says `text` (prompt and answer, target ids) again."""

    can_rewind = True
    n_batch = 512

    def __init__(self, vocabulary: Vocabulary, name: str, n_ctx: int) -> None:
        self.vocabulary = vocabulary
        self.name = name
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self.text: Sequence[int] = ()
        self._rows = np.zeros((1, vocabulary.size), np.float32)

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        """As the protocol says; ModelError if `tokens` left the recorded text before the newest proposals."""
        self.tokens += ids
        if rows > len(self._rows):
            self._rows = np.zeros((rows, self.vocabulary.size), np.float32)
        out = self._rows[:rows]
        out[:] = 0.0
        first = len(self.tokens) - rows
        if rows and self.tokens[: first + 1] != list(self.text[: first + 1]):
            raise ModelError("What is decoded is not what was recorded.")
        for i in range(rows):
            following = first + i + 1
            if following < len(self.text):
                out[i, self.text[following]] = _CERTAIN
        return out

    def rewind(self, length: int) -> None:
        del self.tokens[length:]

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass
