"""Ids to give to a model, whatever runs it."""

import numpy as np

from omnidraft.backends.base import LanguageModel


def ids_of(model: LanguageModel, count: int) -> list[int]:
    """Of ordinary tokens, the same ones every time."""
    return np.random.default_rng(count).choice(np.flatnonzero(model.vocabulary.ordinary), count).tolist()
