"""The pace of a pair on this machine: what its rounds take, how often proposals stand, and what proposing gained.

Whoever asks how fast something is asks a `Pace`: the decision of how far to draft (depth.py), the pages, the store of
what was measured. The clock judges every way to propose in saved plain rounds: a round of s seconds that made n tokens
saved n - s / C(1). Knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import isfinite
from time import monotonic

from omnidraft.decoding.acceptance import KEEP, AcceptanceHead, Averages
from omnidraft.decoding.passes import PassTimes
from omnidraft.processes.trying import FIRST, LAST, Patience, Usual

# Plain rounds that a way to propose may lose before it is left, and those that a trial of it may.
PURSE, TRIAL = 6.0, 2.0
_MINUTES = 180.0  # seconds that plain rounds are told of
_LONG_AGO = 16  # rounds since the last plain one, from which on that may be of another time


class Proposer:
    """A way to propose (the drafter, copies) as the clock sees it. purse: plain rounds that it may still lose; what was
    gained long ago excuses nothing, so that it is never fuller than at first (Page's CUSUM, 1954). doubted: it lost
    against plain rounds of long ago, which the machine's slowing down would explain too: new ones decide."""

    def __init__(self, *, left: bool = False, patience: float = FIRST) -> None:
        self.purse = 0.0 if left else PURSE
        self.patience = Patience(patience)
        self.gained, self.took = 0.0, 0.0  # tokens, and what they took in plain rounds; fading
        self.doubted = False

    @property
    def left(self) -> bool:
        return self.purse <= 0

    def observe(self, tokens: int, rounds: float, *, recent: bool = True) -> None:
        """A round made so many tokens in the time of so many plain rounds, `recent` ones. One alone decides nothing,
        since it may have been interrupted."""
        rounds = min(rounds, tokens + TRIAL)
        self.gained, self.took = KEEP * self.gained + tokens, KEEP * self.took + rounds
        self.purse = min(self.purse + tokens - rounds, PURSE)
        if self.purse == PURSE:
            self.patience.renew()
        elif self.left and not recent:
            self.purse, self.doubted = TRIAL, True

    def try_again(self) -> None:
        """What it loses from here on is the price of trying."""
        self.patience.tried()
        if self.left:
            self.purse = TRIAL


class Pace:
    """passes: seconds by rows of a pass, one of them 1; step: seconds of a draft step; fixed: what a pass of several
    rows costs besides itself, since the next one of a single row takes longer.

    averages, head, offset: see acceptance.py; the next answer begins with `offset`. expected: that drafting pays, by
    these figures. stored: what passes and steps took when the processor last worked for this program alone.
    """

    def __init__(self, passes: Mapping[int, float], step: float, fixed: float = 0.0) -> None:
        self._by_threads = {0: PassTimes(passes)}  # 0: as opened
        self._threads = 0
        self._step, self._fixed = Usual(step), Usual(fixed)
        self.averages, self.head, self.offset = Averages(), AcceptanceHead(), 0.0
        self.draft, self.copy = Proposer(), Proposer()
        self.plain = Patience(FIRST if len(passes) == 1 else 4 * FIRST)  # to compare with; one figure may be a stall
        self.expected = True
        self.stored: dict | None = None
        self._tokens = self._seconds = 0.0  # of all rounds, fading
        self._recent: tuple[tuple[float, float], ...] = ()  # when the last plain rounds were, and what they took

    # what rounds take

    @property
    def threads(self) -> int:
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        if count not in self._by_threads:
            near = min(self._by_threads, key=lambda known: abs(known - count))
            self._by_threads[count] = deepcopy(self._by_threads[near])
        self._threads = count

    @property
    def passes(self) -> PassTimes:
        """With the present number of threads."""
        return self._by_threads[self._threads]

    @property
    def step(self) -> float:
        return self._step.value

    @property
    def fixed(self) -> float:
        return max(0.0, self._fixed.value)

    @property
    def plain_seconds(self) -> float:
        """C(1)."""
        return self.passes.plain

    @property
    def least_seconds(self) -> float:
        """C(1) with the number of threads that is quickest."""
        return min(times.plain for times in self._by_threads.copy().values())

    @property
    def rate(self) -> float:
        """Tokens per second in the long run, never below plain decoding's."""
        return max(1.0 / self.plain_seconds, self._tokens / self._seconds if self._seconds else 0.0)

    def extra(self, rows: int, *, returning: bool = True) -> float:
        """Seconds that a pass of so many rows takes longer than one of a single row. returning: which would be plain;
        right behind a wider pass it would not be, and cost `fixed` itself."""
        return self.passes.added(rows) + self.fixed * returning if rows > 1 else 0.0

    # what was gained

    @property
    def drafts(self) -> bool:
        """Whether drafting is expected to pay, and the clock has not ended it."""
        return self.expected and not self.draft.left

    @property
    def plain_is_due(self) -> bool:
        """Whether plain rounds come next, to compare with."""
        return self.draft.doubted or self.copy.doubted or not self.plain.left(TRIAL)

    @property
    def plain_is_recent(self) -> bool:
        return self.plain.waited <= _LONG_AGO

    @property
    def lost(self) -> float | None:
        """The share of its speed that drafting lost before the clock ended it; None if it did not, or it hardly lost
        any."""
        lost = 1.0 - self.draft.gained / self.draft.took if self.draft.took else 0.0
        return lost if self.draft.left and lost > 0.005 else None

    def observe(self, tokens: int, seconds: float) -> None:
        """A round that was not plain made so many tokens."""
        self._tokens, self._seconds = KEEP * self._tokens + tokens, KEEP * self._seconds + seconds
        self.plain.waited += 1

    def observe_plain(self, seconds: Sequence[float]) -> None:
        """Plain rounds in a row took so long each."""
        rounds = len(seconds)
        changed = self.passes.observe_plain(seconds)
        kept = KEEP**rounds
        self._tokens = kept * self._tokens + rounds
        self._seconds = kept * self._seconds + rounds * self.plain_seconds
        self._recent = (*self._recent, *((monotonic(), took) for took in seconds))[-40:]
        self.plain.waited = 0.0
        for proposer in (self.draft, self.copy):
            proposer.patience.waited += rounds
            proposer.doubted = False
            if changed:
                proposer.patience.renew()
        if changed:
            self.plain.renew()

    def recent(self) -> list[float]:
        """Seconds of the plain rounds of the last minutes: other programs come and go. Safe from other threads."""
        since = monotonic() - _MINUTES
        return [took for when, took in self._recent if when >= since]

    def observe_steps(self, steps: float, seconds: float) -> None:
        """So many draft steps took so long together; ids read on the way count as parts of one."""
        self._step.add(seconds / steps)

    def observe_return(self, seconds: float) -> None:
        """A pass of one row right behind a wider one took so long."""
        self._fixed.add(seconds - self.plain_seconds)

    # for others, and on disk

    def duplicate(self) -> Pace:
        return deepcopy(self)

    def with_drafter(self, step: float) -> Pace:
        """Of the same target with another drafter, of which nothing else is known."""
        made = self.duplicate()
        made._step, made.averages, made.head, made.offset = Usual(step), Averages(), AcceptanceHead(), 0.0
        made.draft, made.copy, made.expected = Proposer(), Proposer(), True
        made._tokens = made._seconds = 0.0
        made.stored = self.stored and {**self.stored, "step": step}
        return made

    def another_adapter(self, step: float | None) -> None:
        """The drafter has learned: that it was left says nothing about it. step: seconds of a step, if they differ."""
        self.draft.patience.renew()
        if step is not None:
            self._step = Usual(step)
            self.stored = self.stored and {**self.stored, "step": step}

    def keep(self) -> None:
        """What passes and steps take now was measured without other programs: it may be stored."""
        self.stored = self._times()

    def _times(self) -> dict:
        passes = {str(t): {str(n): s for n, s in times.figures.items()} for t, times in self._by_threads.items()}
        return {"passes": passes, "step": self.step, "fixed": self.fixed}

    def as_dict(self) -> dict:
        learned = {"averages": self.averages.as_list(), "head": self.head.as_dict()}
        judged = {"expected": self.expected, "left": self.draft.left, "patience": self.draft.patience.times}
        return (self.stored or self._times()) | learned | judged

    @classmethod
    def from_dict(cls, data: Mapping) -> Pace:
        """KeyError, TypeError, ValueError, AttributeError or SettingsError for what `as_dict` did not write."""
        tables = {int(t): {int(n): float(s) for n, s in table.items()} for t, table in data["passes"].items()}
        step, fixed = float(data["step"]), float(data["fixed"])
        if not (min(tables) >= 0 and all(seconds >= 0 and isfinite(seconds) for seconds in (step, fixed))):
            raise ValueError("steps that take no time, or for ever")
        made = cls(tables[0], step, fixed)
        made._by_threads = {threads: PassTimes(table) for threads, table in tables.items()}
        made.averages, made.head = Averages.from_list(data["averages"]), AcceptanceHead.from_dict(data["head"])
        patience = min(max(FIRST, float(data.get("patience", FIRST))), LAST)  # that of every start would cost most
        made.expected, made.draft = bool(data["expected"]), Proposer(left=bool(data["left"]), patience=patience)
        made.keep()
        return made
