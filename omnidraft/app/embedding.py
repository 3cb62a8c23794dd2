"""Texts to vectors with the target that is loaded, where it can. Knows nothing of who asks and of who else may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from omnidraft.backends.base import Aborted, Embedding, LanguageModel
from omnidraft.errors import ContextFull, ModelError
from omnidraft.vocab import Vocabulary


class NoEmbeddings(ModelError):
    """What is loaded cannot compute embeddings, or does not know ids that came as a text."""


def embed(
    target: LanguageModel, texts: Sequence[str | Sequence[int]], stopped: Callable[[], bool]
) -> tuple[np.ndarray, int]:
    """A row of length 1 per text (or ids of one), and how many tokens all had. ContextFull if one is too long.

    ModelError where `stopped` came true before the end.
    """
    if not isinstance(target, Embedding):
        raise NoEmbeddings(
            f"{target.name} cannot compute embeddings here: only GGUF files on this machine can; choose another model."
        )
    ids = [_ids(text, target.vocabulary, target.n_ctx) for text in texts]
    try:
        vectors = target.embed(ids, stopped)
    except Aborted:
        raise ModelError("The embeddings were given up.") from None
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0), sum(map(len, ids))


def _ids(text: str | Sequence[int], vocabulary: Vocabulary, n_ctx: int) -> list[int]:
    if not isinstance(text, str):
        if not all(0 <= token < vocabulary.size for token in text):
            raise NoEmbeddings("input has token ids that the model does not know.")
        ids = list(text)
    else:
        least = len(text.encode("utf-8", "replace")) // vocabulary.longest_piece
        start = [vocabulary.bos] if vocabulary.add_bos and vocabulary.bos is not None else []
        # A text far too long is not tokenized only to learn that.
        ids = [*start, *vocabulary.encode(text, at_start=True)] if least < n_ctx else [0] * least
    if len(ids) > n_ctx:
        raise ContextFull(
            f"An input has {len(ids):,} tokens or more, but the model's context holds {n_ctx:,}; send it in parts."
        )
    return ids
