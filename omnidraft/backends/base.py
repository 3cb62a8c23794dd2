"""What the decoding loop asks of a model, whatever runs it.

A `LanguageModel` is one model with one KV cache: `tokens` is exactly what the cache holds. The loop, the tests'
fakes, llama.cpp and transformers meet here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from omnidraft.vocab import Vocabulary

if TYPE_CHECKING:
    from omnidraft.backends.gguf.file import ModelInfo

N_BATCH = 512  # ids of a pass while a prompt is read


class Aborted(Exception):
    """`extend` was interrupted through `abort`; the cache still holds what `tokens` says."""


@runtime_checkable
class LanguageModel(Protocol):
    """One model, one sequence, one KV cache."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def name(self) -> str: ...

    @property
    def info(self) -> ModelInfo:
        """What its file or folder says."""
        ...

    @property
    def n_ctx(self) -> int: ...

    @property
    def n_batch(self) -> int: ...

    @property
    def can_rewind(self) -> bool: ...

    @property
    def tokens(self) -> list[int]:
        """What the cache holds."""
        ...

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        """Append `ids` to the cache. Returns the logits behind each of the last `rows` ids.

        Shape (rows, vocabulary.size), float32, a view that the next call overwrites; 0 <= rows <= len(ids).
        The device has computed all when it returns, so that it can be timed.
        Raises ModelError if the context is full, Aborted if interrupted.
        """
        ...

    def rewind(self, length: int) -> None:
        """Cut the cache back to its first `length` tokens; ModelError if the model cannot."""
        ...

    def abort(self) -> None:
        """Interrupt a running `extend` from another thread as soon as the backend allows."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DraftModel(LanguageModel, Protocol):
    """A language model small enough to draft, with a swappable adapter."""

    adapter: str | None

    def set_adapter(self, path: str | None) -> None:
        """Load a GGUF LoRA in place of the current one and forget the KV cache (its keys were the old weights')."""
        ...


@runtime_checkable
class Embedding(Protocol):
    """A language model that can also turn texts into vectors."""

    def embed(self, texts: Sequence[Sequence[int]], stopped: Callable[[], bool]) -> np.ndarray:
        """(len(texts), width) float64: for the ids of each text the mean of the last hidden states.

        No text is empty or longer than the context. The cache stays as it is. Aborted if interrupted or `stopped`.
        """
        ...


def passes(count: int, rows: int, batch: int, max_rows: int) -> list[tuple[int, int]]:
    """(tokens, rows) of each pass over `count` tokens that gives the last `rows` rows: full batches without rows, then
    at most `max_rows` rows in each."""
    if 0 < count <= batch and rows <= max_rows:  # as most are
        return [(count, rows)]
    first, found = min(rows, max_rows), []
    left = count - rows + first
    while left > batch:
        step = min(batch, left - first)
        found.append((step, 0))
        left -= step
    if left:
        found.append((left, first))
    return [*found, *((n := min(more, max_rows), n) for more in range(rows - first, 0, -max_rows))]
