"""Measures what passes and draft steps cost, before the first answer, within a time budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.decoding.cost import CostModel, Figure
from omnidraft.decoding.processor import Sample, Watch, timed, undisturbed

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 7, 9, 12)  # 7 and 9: kernels take four or eight rows at once, and leftovers one by one
_REPEATS = 3
_TRIES = 6  # where repeats do not agree
_QUICK = 0.01  # seconds a pass takes at most for what one costs besides itself to matter, and to show
_AGREE = 1.2  # ratio of repeats that say the same
_ENOUGH = 2  # repeats that agree, before a figure is worth keeping
_STEPS = 8
_AFTER_FIRST = 1 / 3  # of the budget is there however long the first pass takes


def measure_costs(target: LanguageModel, drafter: DraftModel | None, budget: float) -> CostModel:
    """C(n) for as many widths as `budget` (seconds) allows, narrow ones first, and D. Empties both caches.

    Each figure is the median of repeats that agree and were not disturbed; only those are kept for later sessions, and
    none of them if others used the processors meanwhile. Of repeats that do not agree the fastest counts for now:
    interruptions only ever add time. A large model whose single pass uses much of the budget keeps that one figure;
    real rounds fill in the rest.
    """
    watch, start = Watch(), perf_counter()
    passes = _Passes(target)
    passes.first()
    end = max(start + budget, perf_counter() + _AFTER_FIRST * budget)
    passes.measure(1, end)
    for width in WIDTHS[1:] if target.can_rewind else ():
        if perf_counter() + 2 * passes.longest > end:
            break
        passes.measure(width, end)
    narrow = passes.found[1]
    turns = narrow < _QUICK or _resends(target)
    fixed = _fixed_seconds(target, narrow) if len(passes.found) == len(WIDTHS) and turns else 0.0
    step = narrow
    if drafter is not None:
        _pass_seconds(drafter, 1)  # pays for pages and buffers
        step = _step_within(drafter, end)
        drafter.rewind(0)
    target.rewind(0)
    return CostModel(dict(passes.found), step, fixed, kept=passes.kept if watch.look() else {})


def step_seconds(drafter: DraftModel, repeats: int = _STEPS) -> float:
    """D, the middle one of some steps. Empties the cache."""
    _pass_seconds(drafter, 1)  # pays for pages and buffers
    step = _steady([_pass_seconds(drafter, 1) for _ in range(repeats)])[0]
    drafter.rewind(0)
    return step


class _Passes:
    """A target's figures, as they are found."""

    def __init__(self, target: LanguageModel) -> None:
        self._target = target
        self.found: dict[int, float] = {}
        self.kept: dict[int, Figure] = {}
        self.longest = 0.0
        self._best = 0.0  # share of the wall time that the computing thread got

    def first(self) -> None:
        """The first pass also pays for pages and buffers, and counts for nothing."""
        _pass_seconds(self._target, 1)

    def measure(self, width: int, end: float) -> None:
        samples: list[Sample] = []
        while len(samples) < _REPEATS or (len(samples) < _TRIES and not self._agree(samples)):
            samples.append(_turning(self._target, width, self.found.get(1, 0.0)))
            self.longest = max(self.longest, samples[-1].seconds)
            if perf_counter() + self._reserve(width) > end:
                break
        self._best = max(self._best, *(s.share for s in samples))
        good = undisturbed(samples, self._best)
        seconds, agreeing = _steady(good or [s.seconds for s in samples])
        self.found[width] = seconds
        if good and len(agreeing) >= _ENOUGH:
            self.kept[width] = Figure.of(agreeing)

    def _agree(self, samples: Sequence[Sample]) -> bool:
        return len(_steady(undisturbed(list(samples), self._best) or [s.seconds for s in samples])[1]) >= _ENOUGH

    def _reserve(self, width: int) -> float:
        """Seconds to leave for one pass of each wider width."""
        return 1.5 * self.longest * (len(WIDTHS) - 1 - WIDTHS.index(width)) if self._target.can_rewind else self.longest


def _steady(times: Sequence[float]) -> tuple[float, list[float]]:
    """(the median of the times that agree with the fastest, those times)."""
    agreeing = [t for t in times if t <= _AGREE * min(times)]
    return median(agreeing), agreeing


def _step_within(drafter: DraftModel, end: float) -> float:
    steps = [_pass_seconds(drafter, 1)]
    while len(steps) < _STEPS and perf_counter() + steps[-1] < end:
        steps.append(_pass_seconds(drafter, 1))
    return _steady(steps)[0]


def _turning(target: LanguageModel, width: int, narrow: float) -> Sample:
    """A pass as it comes in answers, where its width mostly differs from the one before."""
    if width > 1 and (narrow < _QUICK or _resends(target)):
        _pass_seconds(target, 1)
    return _timed_pass(target, width)


def _resends(target: LanguageModel) -> bool:
    """Whether another width means sending the graph over a network, which is felt in passes of any length."""
    return getattr(target, "resends", False)


def _fixed_seconds(target: LanguageModel, narrow: float) -> float:
    """What a pass of one row takes longer than `narrow` right after a wider one."""
    after = []
    for _ in range(2 * _REPEATS):
        _pass_seconds(target, 4)
        after.append(_pass_seconds(target, 1))
    return max(0.0, min(after) - narrow)


def _pass_seconds(model: LanguageModel, width: int) -> float:
    return _timed_pass(model, width).seconds


def _timed_pass(model: LanguageModel, width: int) -> Sample:
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
    return timed(_pass(model, [ids[i % len(ids)] for i in range(width)]))


def _pass(model: LanguageModel, ids: list[int]) -> Callable[[], None]:
    def run() -> None:
        model.extend(ids, len(ids))
        if len(ids) > 1:
            model.rewind(len(model.tokens) - 1)

    return run


def _some_ids(model: LanguageModel) -> list[int]:
    return model.vocabulary.ordinary.nonzero()[0][:64].tolist()
