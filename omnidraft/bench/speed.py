"""`bench speed`: methods against plain decoding, interleaved prompt by prompt in one run.

Every method answers the same distinct prompts with the same seeds on the same loaded models, from cold KV caches, and
keeps its own memory of costs, acceptance and earlier texts. Speed is compared within the run only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from omnidraft.assistant import Assistant
from omnidraft.bench import regimes
from omnidraft.bench.prompts import load_prompts
from omnidraft.bench.trace import Trace, record, seconds
from omnidraft.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.engine import Memory
from omnidraft.errors import SettingsError
from omnidraft.paths import DataHome

_RESAMPLES = 2000
_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. drafters: "given", "random" or both; temperatures, tasks, methods and regimes by name."""

    tasks: Sequence[str]
    methods: Sequence[str]
    temperatures: Sequence[float]
    regimes: Sequence[str]
    drafters: Sequence[str] = ("given",)
    prompts: int = 6
    max_tokens: int = 64
    seed: int = 0
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one task. speedup and end_to_end_speedup are ratios of summed times per token against plain."""

    target: str
    regime: str
    drafter: str
    task: str
    temperature: float
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
    drafted_per_pass: float
    degenerate: int


def draft_settings(method: str) -> DraftSettings:
    """plain, lookup, fixed:K, gamma:X, adaptive, or adaptive-alone (without lookups)."""
    name, _, value = method.partition(":")
    try:
        match name:
            case "plain":
                return DraftSettings(enabled=False)
            case "lookup":
                return DraftSettings(mode="lookup")
            case "fixed":
                return DraftSettings(mode="fixed", length=int(value))
            case "gamma":
                return DraftSettings(mode="gamma", gamma=float(value))
            case "adaptive":
                return DraftSettings(mode="adaptive")
            case "adaptive-alone":
                return DraftSettings(mode="adaptive", lookup=False)
    except ValueError:
        pass
    raise SettingsError(f"There is no method {method}; known are plain, lookup, fixed:K, gamma:X, adaptive.")


def run(home: DataHome, plan: Plan, targets: Sequence[Path], drafter: Path) -> Iterator[Cell]:
    """Cells as they are finished, in the order target, regime, drafter, temperature, task."""
    methods = {method: draft_settings(method) for method in dict.fromkeys(("plain", *plan.methods))}
    for target in targets:
        for regime in plan.regimes:
            for kind in plan.drafters:
                given = drafter if kind == "given" else regimes.untaught(home, drafter)
                files = regimes.models(home, regime, target, given)
                yield from _pair(home, plan, methods, target.stem, regime, kind, files)


def _pair(
    home: DataHome, plan: Plan, methods: dict[str, DraftSettings], name: str, regime: str, kind: str,
    files: tuple[Path, Path],
) -> Iterator[Cell]:  # fmt: skip
    assistant = Assistant(home, ephemeral=True)
    try:
        assistant.load(*files, ModelSettings(threads=plan.threads), CacheSettings())
        bench = _Bench(assistant, plan, methods)
        traces: dict[tuple[float, str, str], list[Trace]] = {}
        for temperature in plan.temperatures:
            bench.warm_up(temperature)
            for task in plan.tasks:
                for method, found in bench.task(task, temperature).items():
                    traces[temperature, task, method] = found
        costs = Costs.of([t for found in traces.values() for t in found])
        for (temperature, task, method), found in traces.items():
            plain = traces[temperature, task, "plain"]
            yield _cell((name, regime, kind, task, temperature, method), plain, found, costs)
    finally:
        assistant.close()


class _Bench:
    """Runs prompts through every method on one loaded pair."""

    def __init__(self, assistant: Assistant, plan: Plan, methods: dict[str, DraftSettings]) -> None:
        self._assistant = assistant
        self._plan = plan
        self._methods = methods
        measured = assistant.engine.measured()
        self._memories = {method: Memory.with_cost(measured.copy()) for method in methods}

    def warm_up(self, temperature: float) -> None:
        for task in self._plan.tasks[:_WARM_UP]:
            prompt = load_prompts(task, split="train", limit=1)[0]
            for method in self._methods:
                self._answer(prompt.messages, method, temperature, 1)

    def task(self, task: str, temperature: float) -> dict[str, list[Trace]]:
        """Traces by method, one a prompt, methods in turning order so that none is always first."""
        prompts = load_prompts(task, split="test", limit=self._plan.prompts)
        traces: dict[str, list[Trace]] = {method: [] for method in self._methods}
        for number, prompt in enumerate(prompts):
            order = list(self._methods)
            turn = number % len(order)
            for method in order[turn:] + order[:turn]:
                trace = self._answer(prompt.messages, method, temperature, self._plan.seed + number)
                traces[method].append(trace)
        return traces

    def _answer(self, messages: Sequence[dict], method: str, temperature: float, seed: int) -> Trace:
        engine = self._assistant.engine
        engine.forget()
        engine.memory = self._memories[method]
        sampling = SamplingSettings(temperature=temperature, seed=seed, max_tokens=self._plan.max_tokens)
        return record(self._assistant.answer(messages, sampling, self._methods[method]))


@dataclass(frozen=True, slots=True)
class Costs:
    """Medians over a run: C(n) by rows of a pass, D of a draft step. Seconds."""

    passes: dict[int, float]
    step: float

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> Costs:
        widths: dict[int, list[float]] = {}
        steps: list[float] = []
        for trace in traces:
            for i, done in enumerate(trace.rounds):
                widths.setdefault(done.proposed + 1, []).append(done.verify)
                if done.drafted and i > 2:  # the first draft of an answer reads the prompt
                    steps.append(done.draft / done.drafted)
        return cls({n: median(found) for n, found in widths.items()}, median(steps) if steps else 0.0)

    def ideal(self, traces: Sequence[Trace], step: float) -> float:
        """Speedup if rounds took passes and draft steps and nothing else (design: Terms)."""
        rounds = [r for t in traces for r in t.rounds]
        tokens = sum(r.emitted for r in rounds)
        return tokens * self.passes[1] / sum(self.passes[r.proposed + 1] + r.drafted * step for r in rounds)


def _cell(labels: tuple, plain: Sequence[Trace], found: Sequence[Trace], costs: Costs) -> Cell:
    rounds = [r for t in found for r in t.rounds]
    tokens = sum(r.emitted for r in rounds)
    proposed = sum(r.proposed for r in rounds)
    speedup = _ratio(plain, found, "decode")
    each = [_ratio([p], [f], "decode") for p, f in zip(plain, found, strict=True)]
    ideal = costs.ideal(found, costs.step)
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
        drafted_per_pass=sum(r.drafted for r in rounds) / len(rounds),
        degenerate=sum(t.degenerate for t in found),
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
    return (
        f"{cell.target:18} {cell.regime:9} {cell.drafter:6} {cell.task:9} T={cell.temperature:g} {cell.method:15} "
        f"acc {acceptance}  tok/pass {cell.tokens_per_pass:4.2f}  {cell.tokens_per_second:7.1f} tok/s  "
        f"x{cell.speedup:4.2f} [{low:4.2f}, {high:4.2f}]  end-to-end x{cell.end_to_end_speedup:4.2f}  "
        f"eff {cell.efficiency:4.2f}{loops}"
    )
