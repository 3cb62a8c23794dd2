"""What passes and draft steps take here, measured before the first answer, within a time budget.

Of several tries the quickest counts: interruptions only add time. Real rounds tell the rest (pace.py).
"""

from __future__ import annotations

from time import perf_counter

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.decoding.pace import Pace
from omnidraft.decoding.passes import HOPE
from omnidraft.processes.contention import Contention
from omnidraft.processes.progress import tell

# Rows, first those that show what one adds, should there be no time for more. 7 and 9: kernels take four or eight rows
# at once, and leftovers one by one.
WIDTHS = (1, 4, 2, 8, 3, 6, 5, 7, 9, 12)
_REPEATS = 3


def measure_pace(target: LanguageModel, drafter: DraftModel | None, budget: float) -> Pace:
    """Of as many widths of passes as `budget` (seconds) allows, and of draft steps. Empties both caches.

    Single rows take half of it at most, so that of a large model four rows are measured too. One whose single pass uses
    much of the budget keeps that one figure; real rounds fill in the rest. Nothing is worth storing if others used the
    processors meanwhile.
    """
    contention, found = Contention(), dict[int, float]()
    _pass_seconds(target, 1)  # pays for pages and buffers
    start = perf_counter()
    end = start + budget
    widest = getattr(target, "widest", max(WIDTHS)) if target.can_rewind else 1
    widths = [width for width in WIDTHS if width <= widest]
    for done, width in enumerate(widths):
        tell("measuring what passes take", done / len(widths))
        if width > 1 and perf_counter() + 2 * max(found.values()) > end:
            break
        times = _width_seconds(target, width, end if width > 1 else start + budget / 2)
        found[width] = min(times)
        if width > 1 and len(times) == 1:  # which may have been interrupted
            found[width] = min(found[width], (1 + HOPE * (width - 1)) * found[1])
    fixed = _fixed_seconds(target, found[1], min(4, widest)) if len(found) == len(widths) else 0.0
    step = step_seconds(drafter) if drafter is not None else found[1]
    target.rewind(0)
    pace = Pace(found, step, fixed)
    if contention.quiet_since():
        pace.keep()
    return pace


def step_seconds(drafter: DraftModel, repeats: int = 2 * _REPEATS) -> float:
    """Of a draft step. Empties the cache."""
    _pass_seconds(drafter, 1)  # pays for pages and buffers
    step = min(_pass_seconds(drafter, 1) for _ in range(repeats))
    drafter.rewind(0)
    return step


def _width_seconds(target: LanguageModel, width: int, end: float) -> list[float]:
    """What some passes take, each behind one of one row: in answers widths mostly differ from one to the next."""
    times: list[float] = []
    for _ in range(_REPEATS):
        if width > 1:
            _pass_seconds(target, 1)
        times.append(_pass_seconds(target, width))
        if perf_counter() + max(times) > end:
            break
    return times


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
