"""Measures what passes and draft steps cost, before the first answer, within a time budget."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.decoding.depth import CostModel
from omnidraft.processes.contention import Contention
from omnidraft.processes.progress import tell

# Narrow ones first. 7 and 9: kernels take four or eight rows at once, and leftovers one by one.
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 7, 9, 12)
# Of each, how many times at least, and at most while fewer than two agree: a median of three survives one interruption.
_REPEATS, _TRIES = 3, 6
_AGREE = 1.2  # ratio of two times that say the same: processors change their clock by as much


def measure_costs(target: LanguageModel, drafter: DraftModel | None, budget: float) -> CostModel:
    """C(n) for as many widths as `budget` (seconds) allows, and D. Empties both caches.

    A large model whose single pass uses much of the budget keeps that one figure; real rounds fill in the rest. Nothing
    is worth storing if others used the processors meanwhile.
    """
    contention, found = Contention(), {}
    _pass_seconds(target, 1)  # pays for pages and buffers
    start = perf_counter()
    end, longest = start + budget, 0.0
    widest = getattr(target, "widest", max(WIDTHS)) if target.can_rewind else 1
    widths = [width for width in WIDTHS if width <= widest]
    for done, width in enumerate(widths):
        tell("measuring what passes take", done / len(widths))
        if width > 1 and perf_counter() + 2 * longest * _REPEATS > end:
            break
        found[width], slowest = _width_seconds(target, width, end)
        longest = max(longest, slowest)
    fixed = _fixed_seconds(target, found[1], min(4, widest)) if len(found) == len(widths) else 0.0
    step = step_seconds(drafter) if drafter is not None else found[1]
    target.rewind(0)
    cost = CostModel(found, step, fixed)
    if contention.quiet_since():
        cost.keep()
    return cost


def step_seconds(drafter: DraftModel, repeats: int = 2 * _REPEATS) -> float:
    """D. Empties the cache."""
    _pass_seconds(drafter, 1)  # pays for pages and buffers
    step = _steady([_pass_seconds(drafter, 1) for _ in range(repeats)])[0]
    drafter.rewind(0)
    return step


def _width_seconds(target: LanguageModel, width: int, end: float) -> tuple[float, float]:
    """(what a pass takes, the longest of those timed). In answers widths mostly differ from one pass to the next."""
    times: list[float] = []
    while len(times) < _REPEATS or (len(times) < _TRIES and _steady(times)[1] < 2):
        if width > 1:
            _pass_seconds(target, 1)
        times.append(_pass_seconds(target, width))
        if perf_counter() + max(times) > end:
            break
    return _steady(times)[0], max(times)


def _steady(times: list[float]) -> tuple[float, int]:
    """(the median of the times that agree with the fastest, as interruptions only add time; how many do)."""
    agreeing = [t for t in times if t <= _AGREE * min(times)]
    return median(agreeing), len(agreeing)


def _fixed_seconds(target: LanguageModel, narrow: float, wide: int) -> float:
    """What a pass of one row takes longer than `narrow` right after one of `wide` rows."""
    after = []
    for _ in range(_REPEATS):
        _pass_seconds(target, wide)
        after.append(_pass_seconds(target, 1))
    return max(0.0, min(after) - narrow)


def _pass_seconds(model: LanguageModel, width: int) -> float:
    """One pass of `width` rows behind a few tokens of context, and taking a token of it back: every round with
    a rejection ends so, and some kinds of memory then read tokens again."""
    ordinary = model.vocabulary.ordinary.nonzero()[0][:64].tolist()
    if not model.can_rewind:
        model.rewind(0)
    elif len(model.tokens) < 16:
        model.rewind(0)
        model.extend([ordinary[i % len(ordinary)] for i in range(16)], 0)
    else:
        model.rewind(16)
    ids = [ordinary[i % len(ordinary)] for i in range(width)]
    start = perf_counter()
    model.extend(ids, len(ids))
    if width > 1:
        model.rewind(len(model.tokens) - 1)
    return perf_counter() - start
