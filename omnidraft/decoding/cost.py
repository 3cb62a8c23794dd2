"""What a round costs on this machine: C(n), the seconds of a target pass over n rows, and D, those of a draft step.

C is a staircase that differs by model, quantization and machine, so it is measured, not assumed: at load where that
is quick, and again by every real round. The shape (by n) and the level (all n alike: a longer context, a busier
machine) are tracked apart, so that one pass of one width also corrects the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnidraft.errors import SettingsError

_SHAPE_RATE = 0.02  # slower than the level: what slows one width mostly slows them all
_LEVEL_RATE = 0.1
_STEP_RATE = 0.08
_RETURN_RATE = 0.05
_HOPE = 0.3  # what one more row is taken to add to a pass before anything was measured
_MEASURED = 4  # how many samples a figure from the start counts for
_REFRESH = 64  # observations after which widths between measured ones are worked out anew
_TABLE = 17  # widths worked out at once
_OUTLIER = 3.0  # a pass this many times slower than expected was interrupted; it says nothing about the model


@dataclass(slots=True)
class CostModel:
    """Seconds, learned from measurements.

    passes: measured C(n) by width n, at level 1. step: D, one drafter step. fixed: what a pass of several rows costs
    besides itself, because the next one of a single row takes longer (llama.cpp builds its graph anew).
    """

    passes: dict[int, float]
    step: float
    fixed: float = 0.0
    level: float = 1.0
    samples: dict[int, int] = field(default_factory=dict)
    step_samples: int = 0
    _shapes: list[float] = field(default_factory=list, repr=False, compare=False)  # by rows, between figures too
    _age: int = field(default=0, repr=False, compare=False)  # observations since these were worked out

    def __post_init__(self) -> None:
        if 1 not in self.passes or any(n < 1 or not s > 0 for n, s in self.passes.items()):
            raise SettingsError("A cost model needs a positive time for a pass of one row, and for every other width.")

    def pass_seconds(self, rows: int) -> float:
        """C(rows), `fixed` included: measured, or on the line between (beyond: through) the nearest measured widths."""
        return self.alone(rows) + (self.fixed if rows > 1 else 0.0)

    def alone(self, rows: int) -> float:
        """Likewise without `fixed`."""
        if rows >= len(self._shapes):
            self._shapes = [0.0, *(self._shape(n) for n in range(1, max(rows, _TABLE) + 1))]
        return self.level * self._shapes[rows]

    def _shape(self, rows: int) -> float:
        if (exact := self.passes.get(rows)) is not None:
            return exact
        widths = sorted(self.passes)
        if len(widths) == 1:
            return self.passes[1] * (1 + _HOPE * (rows - 1))  # nothing known: hopeful enough to find out
        above = next((i for i, n in enumerate(widths) if n > rows), len(widths) - 1)
        low, high = widths[above - 1], widths[above]
        slope = (self.passes[high] - self.passes[low]) / (high - low)
        return self.passes[low] + slope * (rows - low)

    def observe_pass(self, rows: int, seconds: float) -> None:
        """A real pass of `rows` rows took `seconds`."""
        expected = self.alone(rows)
        ratio = seconds / expected
        seen = self.samples.get(rows, _MEASURED if rows in self.passes else 0)
        if ratio > _OUTLIER and seen:
            return
        if seen:
            self.level *= 1 + _LEVEL_RATE * (min(ratio, _OUTLIER) - 1)
        self.samples[rows] = seen + 1
        shape = self.passes.get(rows, 0.0)
        self.passes[rows] = shape + max(_SHAPE_RATE, 1 / (seen + 1)) * (seconds / self.level - shape)
        self._age += 1
        if not seen or self._age >= _REFRESH:
            self._shapes, self._age = [], 0  # worked out anew when next asked for
        else:
            self._shapes[rows] = self.passes[rows]

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
        return CostModel(dict(self.passes), self.step, self.fixed, self.level, dict(self.samples), self.step_samples)

    def as_dict(self) -> dict:
        """For storage: widths as text, as JSON wants them."""
        return {
            "passes": {str(n): s * self.level for n, s in sorted(self.passes.items())},
            "step": self.step,
            "fixed": self.fixed,
        }

    @classmethod
    def from_dict(cls, data: Mapping) -> CostModel:
        """SettingsError or KeyError/ValueError/TypeError for what `as_dict` did not write."""
        return cls({int(n): float(s) for n, s in data["passes"].items()}, float(data["step"]), float(data["fixed"]))
