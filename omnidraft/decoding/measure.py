"""Measures what passes and draft steps cost, before the first answer, within a time budget."""

from __future__ import annotations

from time import perf_counter

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.decoding.cost import CostModel

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12)
_REPEATS = 3
_QUICK = 0.01  # seconds a pass takes at most for what one costs besides itself to matter, and to show


def measure_costs(target: LanguageModel, drafter: DraftModel | None, budget: float) -> CostModel:
    """C(n) for as many widths as `budget` (seconds) allows, narrow ones first, and D. Empties both caches.

    Each figure is the fastest of up to three: interruptions only ever add time. A large model whose single pass uses
    much of the budget keeps that one figure; real rounds fill in the rest.
    """
    end = perf_counter() + budget
    passes = {1: _pass_seconds(target, 1)}  # this first pass also pays for pages and buffers
    for width in WIDTHS if target.can_rewind else (1,):
        if perf_counter() + 2 * max(passes.values()) > end:
            break
        passes[width] = min(_turning_seconds(target, width, passes[1]) for _ in range(_repeats(passes, end)))
    fixed = _fixed_seconds(target, passes[1]) if len(passes) == len(WIDTHS) and passes[1] < _QUICK else 0.0
    step = passes[1]
    if drafter is not None:
        step = _pass_seconds(drafter, 1)
        left = max(0.0, end - perf_counter())
        step = min([step, *(_pass_seconds(drafter, 1) for _ in range(min(8, int(left / step))))])
        drafter.rewind(0)
    target.rewind(0)
    return CostModel(passes, step, fixed)


def step_seconds(drafter: DraftModel, repeats: int = 8) -> float:
    """D, the fastest of some steps. Empties the cache."""
    _pass_seconds(drafter, 1)  # pays for pages and buffers
    step = min(_pass_seconds(drafter, 1) for _ in range(repeats))
    drafter.rewind(0)
    return step


def _turning_seconds(target: LanguageModel, width: int, narrow: float) -> float:
    """A pass as it comes in answers, where its width mostly differs from the one before."""
    if width > 1 and narrow < _QUICK:
        _pass_seconds(target, 1)
    return _pass_seconds(target, width)


def _fixed_seconds(target: LanguageModel, narrow: float) -> float:
    """What a pass of one row takes longer than `narrow` right after a wider one."""
    after = []
    for _ in range(2 * _REPEATS):
        _pass_seconds(target, 4)
        after.append(_pass_seconds(target, 1))
    return max(0.0, min(after) - narrow)


def _repeats(passes: dict[int, float], end: float) -> int:
    """As many repeats as leave time for the wider passes."""
    left = len(WIDTHS) - len(passes) + 1
    return max(1, min(_REPEATS, int((end - perf_counter()) / (left * 1.5 * max(passes.values())))))


def _pass_seconds(model: LanguageModel, width: int) -> float:
    """One pass of `width` rows behind a few tokens of context, and taking a token of it back.

    Every round with a rejection ends so; some kinds of memory then read tokens again.
    """
    ids = _some_ids(model)
    if model.can_rewind:
        if len(model.tokens) < 16:
            model.rewind(0)
            model.extend([ids[i % len(ids)] for i in range(16)], 0)
        model.rewind(16)
    else:
        model.rewind(0)
    start = perf_counter()
    model.extend([ids[i % len(ids)] for i in range(width)], width)
    if width > 1:
        model.rewind(len(model.tokens) - 1)
    return perf_counter() - start


def _some_ids(model: LanguageModel) -> list[int]:
    return model.vocabulary.ordinary.nonzero()[0][:64].tolist()
