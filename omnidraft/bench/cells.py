"""What `bench speed` reports of one method on one task: ratios against plain decoding with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from omnidraft.bench.columns import Column, label
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.lab.trace import Trace, seconds

_RESAMPLES = 2000
_ENOUGH = 8  # rounds of a width, or draft steps, in a run, before which what was measured at load counts


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one task. speedup and end_to_end_speedup are ratios of summed times per token against plain.

    ideal_speedup: by C(n) and D alone; free_speedup: likewise with a drafter that costs nothing. best_fixed: the best
    of the compared draft lengths by the run's C(n) and D; against_best_fixed: this method's speed over that one's, by
    the same arithmetic; modelled_speedup: by that arithmetic, to be held against `speedup`.
    """

    target: str
    regime: str
    drafter: str
    task: str
    temperature: Column
    method: str
    tokens: int
    acceptance_rate: float | None
    tokens_per_pass: float
    tokens_per_second: float
    speedup: float
    speedup_ci: tuple[float, float]
    speedup_median: float
    end_to_end_speedup: float
    end_to_end_ci: tuple[float, float]
    ideal_speedup: float
    free_speedup: float
    efficiency: float
    modelled_speedup: float
    drafted_per_pass: float
    degenerate: int
    best_fixed: int | None = None
    against_best_fixed: float | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """Medians over a run: C(n) by rows of a pass, D of a draft step, and what rounds cost besides. Seconds."""

    passes: dict[int, float]
    step: float
    reading: float  # of the prompt by the drafter, before an answer's first draft
    around: dict[bool, float]  # by whether anything was proposed
    measured: CostModel  # at load; its shape stands in for widths the run hardly saw

    @classmethod
    def of(cls, traces: Sequence[Trace], measured: CostModel) -> Costs:
        widths: dict[int, list[float]] = {}
        steps: list[float] = []
        around: dict[bool, list[float]] = {False: [], True: []}
        firsts: list[Round] = []
        for trace in traces:
            for done in trace.rounds:
                widths.setdefault(done.proposed + 1, []).append(done.verify)
                around[done.proposed > 0].append(done.translate + done.other)
            firsts += [r for r in trace.rounds if r.drafted][:1]
            # only behind a round that drafted: after others the drafter also reads what was said meanwhile
            steps += [r.draft / r.drafted for before, r in pairwise(trace.rounds) if before.drafted and r.drafted]
        step = median(steps) if len(steps) >= _ENOUGH else measured.step
        reading = [max(0.0, first.draft - first.drafted * step) for first in firsts]
        passes = {n: median(found) for n, found in widths.items() if len(found) >= _ENOUGH}
        return cls(
            passes,
            step,
            median(reading) if reading else 0.0,
            {kind: median(found) if found else 0.0 for kind, found in around.items()},
            measured,
        )

    def pass_seconds(self, rows: int) -> float:
        if rows in self.passes:
            return self.passes[rows]
        level = self.passes[1] / self.measured.alone(1) if 1 in self.passes else 1.0
        return level * self.measured.alone(rows)

    def ideal(self, traces: Sequence[Trace], step: float) -> float:
        """Speedup if rounds took passes and draft steps and nothing else (design: Terms)."""
        rounds = [r for t in traces for r in t.rounds]
        tokens = sum(r.emitted for r in rounds)
        return tokens * self.pass_seconds(1) / sum(self.pass_seconds(r.proposed + 1) + r.drafted * step for r in rounds)

    def modelled(self, traces: Sequence[Trace]) -> float:
        """Seconds a token that these rounds would take."""
        rounds = [r for t in traces for r in t.rounds]
        total = sum(
            self.pass_seconds(r.proposed + 1) + r.drafted * self.step + self.around[r.proposed > 0] for r in rounds
        )
        total += self.measured.fixed * sum(r.proposed > 0 for r in rounds)
        total += self.reading * sum(any(r.drafted for r in t.rounds) for t in traces)
        return total / sum(r.emitted for r in rounds)


def make_cell(
    labels: tuple[str, str, str, str, Column, str],
    plain: Sequence[Trace],
    found: Sequence[Trace],
    costs: Costs,
    fixed: dict[int, list[Trace]] | None = None,
) -> Cell:
    """labels: the cell's first six fields. fixed: counted traces of the draft lengths to compare with, if any."""
    rounds = [r for t in found for r in t.rounds]
    tokens = sum(r.emitted for r in rounds)
    proposed = sum(r.proposed for r in rounds)
    speedup = _ratio(plain, found, "decode")
    each = [_ratio([p], [f], "decode") for p, f in zip(plain, found, strict=True)]
    ideal = costs.ideal(found, costs.step)
    mine = costs.modelled(found)
    theirs = {k: costs.modelled(traces) for k, traces in (fixed or {}).items()}
    best = min(theirs, key=theirs.__getitem__, default=None)
    return Cell(
        *labels,
        tokens=tokens,
        acceptance_rate=sum(r.accepted for r in rounds) / proposed if proposed else None,
        tokens_per_pass=tokens / len(rounds),
        tokens_per_second=tokens / sum(map(seconds, rounds)),
        speedup=speedup,
        speedup_ci=_bootstrap(plain, found, "decode"),
        speedup_median=median(each),
        end_to_end_speedup=_ratio(plain, found, "end_to_end"),
        end_to_end_ci=_bootstrap(plain, found, "end_to_end"),
        ideal_speedup=ideal,
        free_speedup=costs.ideal(found, 0.0),
        efficiency=speedup / ideal,
        modelled_speedup=costs.modelled(plain) / mine,
        drafted_per_pass=sum(r.drafted for r in rounds) / len(rounds),
        degenerate=sum(t.degenerate for t in found),
        best_fixed=best,
        against_best_fixed=theirs[best] / mine if best is not None else None,
    )


def _ratio(plain: Sequence[Trace], found: Sequence[Trace], what: str) -> float:
    def per_token(traces: Sequence[Trace]) -> float:
        return sum(getattr(t, what) for t in traces) / sum(t.tokens for t in traces)

    return per_token(plain) / per_token(found)


def _bootstrap(plain: Sequence[Trace], found: Sequence[Trace], what: str) -> tuple[float, float]:
    """95% interval of the ratio, prompts resampled in pairs."""
    rng = np.random.default_rng(0)
    ratios = [
        _ratio([plain[i] for i in drawn], [found[i] for i in drawn], what)
        for drawn in rng.integers(len(plain), size=(_RESAMPLES, len(plain)))
    ]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def as_json(cells: Sequence[Cell]) -> dict:
    return {"cells": [asdict(cell) for cell in cells]}


def line(cell: Cell) -> str:
    """A table row for people."""
    acceptance = f"{cell.acceptance_rate:.2f}" if cell.acceptance_rate is not None else "   -"
    low, high = cell.speedup_ci
    loops = f"  {cell.degenerate} looped" if cell.degenerate else ""
    best = f"  {cell.against_best_fixed:.2f} of fixed:{cell.best_fixed}" if cell.best_fixed else ""
    return (
        f"{cell.target:18} {cell.regime:9} {cell.drafter:6} {cell.task:9} {label(cell.temperature):8} {cell.method:15} "
        f"acc {acceptance}  tok/pass {cell.tokens_per_pass:4.2f}  {cell.tokens_per_second:7.1f} tok/s  "
        f"x{cell.speedup:4.2f} [{low:4.2f}, {high:4.2f}]  modelled x{cell.modelled_speedup:4.2f}  "
        f"end-to-end x{cell.end_to_end_speedup:4.2f}  eff {cell.efficiency:4.2f}{best}{loops}"
    )


def summary(cells: Sequence[Cell]) -> list[str]:
    """Over all cells of each method and drafter: the geometric mean and the worst figures."""
    lines = []
    for name in dict.fromkeys((c.method, c.drafter) for c in cells if c.method != "plain"):
        mine = [c for c in cells if (c.method, c.drafter) == name]
        speedups = np.array([c.speedup for c in mine])
        mean = float(np.exp(np.log(speedups).mean()))
        whole = float(np.exp(np.log([c.end_to_end_speedup for c in mine]).mean()))
        short = [c for c in mine if c.speedup_ci[1] < 0.98]
        lowest = min(c.speedup_median for c in mine)
        lines.append(
            f"{name[0]}, drafter {name[1]}: {len(mine)} cells, geometric mean x{mean:.3f} (end-to-end x{whole:.3f}), "
            f"lowest median x{lowest:.2f}, intervals below 0.98: {len(short)}"
        )
    return lines
