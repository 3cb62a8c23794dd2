"""Whether a served version should be looked at again: acceptance of its own answers against those before it."""

from __future__ import annotations

import numpy as np

from omnidraft.learning.adapters.serving import Choice, Shelf
from omnidraft.learning.material.history import History, acceptance

LIVE_ANSWERS = 50  # served by a version before its acceptance says something
FEWEST_BEFORE = 10
LEAST_FALL = 0.01


def has_fallen(choice: Choice, shelf: Shelf, history: History | None, looked: set[tuple]) -> bool:
    """True once per `LIVE_ANSWERS` answers that accept clearly less than those of the version before.

    That alone proves nothing, for the subjects may have changed: it is the occasion to compare both versions on the
    same answers. looked: what was answered with True before; added to.
    """
    if choice.origin != "own" or history is None:
        return False
    store, version = shelf.store_name(choice.store), choice.version.name
    mine = acceptance(history.served(LIVE_ANSWERS, store, version))
    if len(mine) < LIVE_ANSWERS:
        return False
    occasion = (store, version, history.live(store)[version][0] // LIVE_ANSWERS)
    if occasion in looked:
        return False
    previous = choice.store.previous()
    before = acceptance(history.served(LIVE_ANSWERS, store, previous.name if previous else ""))
    looked.add(occasion)
    return len(before) >= FEWEST_BEFORE and np.mean(before) - np.mean(mine) > max(LEAST_FALL, _error(mine, before))


def _error(a: list[float], b: list[float]) -> float:
    """Standard error of the difference of two means."""
    return float(np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b)))
