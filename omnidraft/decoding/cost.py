"""What a round costs on this machine: C(n), the seconds of a target pass over n rows, and D, those of a draft step.

C is a staircase that differs by model, quantization and machine, so it is measured, not assumed: at load where that
is quick, and again by every real round. The shape (by n) and the level (all n alike: a longer context, a busier
machine) are tracked apart: plain rounds tell the level, wider ones soon behind them their own figure. Figures may be
wrong, the curve may not: it never falls with n, since rows could be filled up. Only what was measured while the
processor worked for this program is kept for later sessions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median

from omnidraft.errors import SettingsError

_SHAPE_RATE, _PAIRED_RATE = 0.02, 0.1  # of a figure, by a round long behind plain ones, and soon behind them
_PAIRED = 32  # wider rounds behind a plain one that are still compared with it
_LEVEL_RATE = 0.1
_STEP_RATE = 0.08
_RETURN_RATE = 0.05
_HOPE = 0.3  # what one more row is taken to add to a pass before anything was measured
_MEASURED = 4  # how many samples a figure from the start counts for
_REFRESH = 16  # observations after which the curve is worked out anew
_TABLE = 17  # widths worked out at once
_OUTLIER = 3.0  # a pass this many times slower than expected was interrupted; it says nothing about the model
_AGREE = 1.25  # ratio of two figures that still say the same
_MUCH = 0.5  # of what was expected: a single pass so quick is believed
_CONFIRMED = 3  # real rounds of a width before its figure counts as seen
_CONTRADICTING = 8  # real rounds in a row that do not agree with a figure replace it


@dataclass(frozen=True, slots=True)
class Figure:
    """One width's time in seconds: the median of `samples`, `spread` their relative deviation, `date` of the last."""

    seconds: float
    samples: int = _MEASURED
    spread: float = 0.0
    date: str = ""

    @classmethod
    def of(cls, times: Sequence[float]) -> Figure:
        middle = median(times)
        return cls(middle, len(times), median(abs(t - middle) for t in times) / middle, _today())


@dataclass(slots=True)
class CostModel:
    """Seconds, learned from measurements.

    passes: figures of C(n) by width n, at level 1; alone() is the curve through them. step: D, one drafter step.
    fixed: what a pass of several rows costs besides itself, because the next one of a single row takes longer
    (llama.cpp builds its graph anew). kept: what may be stored, by width, at `kept_level`; None stands
    for `passes` as given.
    """

    passes: dict[int, float]
    step: float
    fixed: float = 0.0
    level: float = 1.0
    samples: dict[int, int] = field(default_factory=dict)
    step_samples: int = 0
    kept: dict[int, Figure] = None  # type: ignore[assignment]  # None: all of `passes`
    kept_level: float = 1.0
    _seen: dict[int, deque[float]] = field(default_factory=dict, repr=False, compare=False)  # real rounds over expected
    _confirmed: dict[int, int] = field(default_factory=dict, repr=False, compare=False)  # real rounds by width
    _curve: list[float] = field(default_factory=list, repr=False, compare=False)  # by rows
    _age: int = field(default=0, repr=False, compare=False)  # observations since it was worked out
    _wide: int = field(default=_PAIRED, repr=False, compare=False)  # wider rounds since the last plain one

    def __post_init__(self) -> None:
        if 1 not in self.passes or any(n < 1 or not s > 0 for n, s in self.passes.items()):
            raise SettingsError("A cost model needs a positive time for a pass of one row, and for every other width.")
        if self.kept is None:
            self.kept = {n: Figure(s, date=_today()) for n, s in self.passes.items()}

    def pass_seconds(self, rows: int) -> float:
        """C(rows), `fixed` included: on the line between (beyond: through) the nearest measured widths."""
        return self.alone(rows) + (self.fixed if rows > 1 else 0.0)

    def alone(self, rows: int) -> float:
        """Likewise without `fixed`."""
        if rows >= len(self._curve):
            self._curve = [0.0, *self._work_out(max(rows, _TABLE))]
        return self.level * self._curve[rows]

    def hoped(self, rows: int) -> float:
        """C(rows) as it may be if the figures of widths that no real round has used are wrong: little more than that
        of the widest one used."""
        used = max((n for n in self._confirmed if n <= rows and self._used(n)), default=1)
        return min(self.pass_seconds(rows), self.pass_seconds(used) + _HOPE * (rows - used) * self.alone(1))

    def _work_out(self, rows: int) -> list[float]:
        widths = sorted(self.passes)
        if len(widths) == 1:
            return [self.passes[1] * (1 + _HOPE * (n - 1)) for n in range(1, rows + 1)]  # hopeful enough to find out
        found = monotone([self.passes[n] for n in widths], [self.samples.get(n, _MEASURED) for n in widths])
        return [_between(widths, found, n) for n in range(1, rows + 1)]

    def observe_pass(self, rows: int, seconds: float, rounds: int = 1, *, quiet: bool = True) -> None:
        """Real passes of `rows` rows took `seconds` each, `rounds` of them; quiet: with the processor to themselves."""
        ratio = seconds / self.alone(rows)
        known = self.samples.get(rows, _MEASURED if rows in self.passes else 0)
        self._confirmed[rows] = self._confirmed.get(rows, 0) + rounds
        if rows == 1 and self.level * self.passes[1] > _AGREE * self.alone(1):  # wider ones were quicker: it is wrong
            self._put(1, seconds / self.level, quiet)
            self._curve = []
            return
        if known and (found := self._contradicted(rows, ratio, rounds)) is not None:
            del self._seen[rows]
            self._replace(rows, found, quiet)
            return
        if ratio > _OUTLIER and known:
            return
        self._wide = 0 if rows == 1 else self._wide + 1
        paired = rows > 1 and self._wide <= _PAIRED
        if known and not paired:
            self.level *= 1 + (1 - (1 - _LEVEL_RATE) ** rounds) * (ratio - 1)
        shape = self.passes.get(rows, 0.0)
        rate = max(_PAIRED_RATE if paired else _SHAPE_RATE, 1 / (known + 1)) if rows > 1 or not known else 0.0
        self.samples[rows] = known + 1
        self._put(rows, shape + rate * (seconds / self.level - shape), quiet)
        self._age += 1
        if not known or self._age >= _REFRESH:
            self._curve, self._age = [], 0  # worked out anew when next asked for

    def _contradicted(self, rows: int, ratio: float, rounds: int) -> float | None:
        """What the latest real rounds took over what was expected, where they agree with each other and not with the
        figure. Interruptions only ever add time, so what is quicker than expected is believed sooner."""
        seen = self._seen.setdefault(rows, deque(maxlen=_CONTRADICTING))
        seen.extend([ratio] * min(rounds, _CONTRADICTING))
        if rows > 1 and self._wide <= _PAIRED and (ratio < _MUCH or max(list(seen)[-2:]) < 1 / _AGREE):
            return ratio if ratio < _MUCH or len(seen) > 1 else None
        agree = len(seen) == _CONTRADICTING and max(seen) < _AGREE * min(seen)
        return middle if agree and not 1 / _AGREE < (middle := median(seen)) < _AGREE else None

    def _replace(self, rows: int, factor: float, quiet: bool) -> None:
        """Measured again by real rounds, which took `factor` times what was expected. Where that is less, figures of
        widths never used are doubted too."""
        seconds = factor * self.alone(rows)
        if rows == 1:
            self.level *= factor
        else:
            if factor < 1.0:
                for doubted in [n for n in self.passes if not self._used(n)]:
                    del self.passes[doubted]
                    self.samples.pop(doubted, None), self.kept.pop(doubted, None)
            self.samples[rows] = _MEASURED
            self._put(rows, seconds / self.level, quiet)
        self._curve, self._age = [], 0

    def _used(self, rows: int) -> bool:
        return rows == 1 or self._confirmed.get(rows, 0) >= _CONFIRMED

    def _put(self, rows: int, seconds: float, quiet: bool) -> None:
        self.passes[rows] = seconds
        if quiet:
            spread = self.kept[rows].spread if rows in self.kept else 0.0
            self.kept[rows] = Figure(seconds, self.samples.get(rows, 1), spread, _today())
            self.kept_level = self.level

    def observe_return(self, seconds: float) -> None:
        """A real pass of one row, right after a wider one, took `seconds`."""
        extra = seconds - self.alone(1)
        self.fixed = max(0.0, self.fixed + _RETURN_RATE * (min(extra, self.alone(1)) - self.fixed))

    def observe_steps(self, steps: int, seconds: float) -> None:
        """`steps` drafter steps took `seconds` together, catching up included."""
        each = seconds / steps
        if each > _OUTLIER * self.step and self.step_samples:
            return
        self.step_samples += 1
        self.step += max(_STEP_RATE, 1 / (self.step_samples + 1)) * (each - self.step)

    def copy(self) -> CostModel:
        return CostModel(
            dict(self.passes), self.step, self.fixed, self.level, dict(self.samples), self.step_samples,
            dict(self.kept), self.kept_level,
        )  # fmt: skip

    @property
    def worth_keeping(self) -> bool:
        """Whether enough was measured with the processor to itself."""
        return 1 in self.kept

    def as_dict(self) -> dict:
        """For storage: widths as text, as JSON wants them."""
        kept = {str(n): asdict(figure) for n, figure in sorted(self.kept.items())}
        for figure in kept.values():
            figure["seconds"] *= self.kept_level
        return {"passes": kept, "step": self.step, "fixed": self.fixed}

    @classmethod
    def from_dict(cls, data: Mapping) -> CostModel:
        """SettingsError or KeyError/ValueError/TypeError for what `as_dict` did not write."""
        kept = {
            int(n): Figure(float(f["seconds"]), int(f["samples"]), float(f["spread"]), str(f["date"]))
            for n, f in data["passes"].items()
        }
        return cls({n: f.seconds for n, f in kept.items()}, float(data["step"]), float(data["fixed"]), kept=kept)


def monotone(figures: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The figures as a curve that never falls: neighbours that do are pooled (pool adjacent violators, Ayer et al.
    1955) to their weighted median, the lower one of two, as interruptions only ever add time."""
    blocks: list[list[tuple[float, float]]] = []
    for pair in zip(figures, weights, strict=True):
        blocks.append([pair])
        while len(blocks) > 1 and _middle(blocks[-2]) > _middle(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [_middle(block) for block in blocks for _ in block]


def _middle(block: Sequence[tuple[float, float]]) -> float:
    left = 0.5 * sum(weight for _, weight in block)
    for seconds, weight in sorted(block):
        left -= weight
        if left <= 0:
            return seconds
    raise AssertionError("weights are positive")


def _between(widths: Sequence[int], found: Sequence[float], rows: int) -> float:
    above = next((i for i, n in enumerate(widths) if n >= rows), len(widths) - 1)
    if above == 0:
        return found[0]
    low, high = widths[above - 1], widths[above]
    return found[above - 1] + (found[above] - found[above - 1]) / (high - low) * (rows - low)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
