"""Reading a prompt into a KV cache, keeping what it already holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnidraft.backends.base import LanguageModel
from omnidraft.backends.picture_ids import FIRST, steps
from omnidraft.decoding.events import Prefill


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])


def prefill(model: LanguageModel, ids: list[int]) -> Iterator[Prefill]:
    """Make the cache hold exactly `ids`, one event per batch so that a stop is noticed in between.

    A model that cannot rewind starts over where the cache went another way.
    """
    reused = common_prefix(model.tokens, ids)
    if reused < len(model.tokens):
        reused = reused if model.can_rewind else 0
        model.rewind(reused)
    yield Prefill(reused, len(ids), reused)
    done = reused
    for step in steps(ids[reused:], model.n_batch):
        if step[0] >= FIRST:
            yield Prefill(done, len(ids), reused, picture=True)
        model.extend(step, 0)
        done += len(step)
        yield Prefill(done, len(ids), reused)
