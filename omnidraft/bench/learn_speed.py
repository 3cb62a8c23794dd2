"""Speed before and after learning, with models and adapters expanded to realistic cost (they say the same).

Plain decoding, draft length 4 and the adaptive length answer the test prompts interleaved, from cold KV caches. Run it
on a quiet machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.app.assistant import Assistant
from omnidraft.bench import columns, regimes
from omnidraft.bench.columns import Column, sampling_of
from omnidraft.bench.learn_plan import LearnPlan, choose, label
from omnidraft.bench.opened import engine_of
from omnidraft.bench.speed import draft_settings
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import DataHome

METHODS = ("plain", "fixed:4", "adaptive")
RESAMPLES = 2000
MOST_PROMPTS = 8
UNTRAINED = ("direct", "cache")
LONG = 32


@dataclass(frozen=True, slots=True)
class Speed:
    """speedup: decode time per token of plain decoding over the method's, prompts paired; interval by bootstrap.

    widths: {rows of a pass: how many passes}; drafted: drafter steps; long: answers of at least 32 tokens.
    """

    target: str
    task: str
    condition: str
    regime: str
    temperature: Column
    method: str
    tokens_per_second: float
    speedup: float
    speedup_ci: tuple[float, float]
    acceptance: float
    tokens_per_pass: float
    tokens: int
    drafted: int
    widths: dict[int, int]
    answers: int
    long: int


def run(
    plan: LearnPlan, cells: Path, home: DataHome, regime: str, conditions: Sequence[str], most: int = MOST_PROMPTS
) -> Iterator[Speed]:
    """Seed 0 of every target and task, untrained ("direct" without n-gram cache, "cache" with it) and with the adapters
    that `bench learn` left in `cells`."""
    for target in plan.targets:
        files = regimes.models(home, regime, target, plan.drafter)
        for task in plan.tasks:
            prompts = choose(plan, task, 0).test[:most]
            for condition in conditions:
                adapter = cells / f"{target.stem}-{label(task)}-s0" / f"{condition}.gguf"
                opened, beside = files[1], None
                if adapter.exists():
                    opened, beside = regimes.taught(home, regime, adapter, plan.drafter)
                elif condition not in UNTRAINED and not adapter.with_suffix(".json").exists():
                    continue  # not trained; where every update was refused, the drafter as it came is what is served
                labels = (target.stem, label(task), condition, regime)
                yield from _measure(plan, home, (files[0], opened), beside, prompts, labels)


def _measure(
    plan: LearnPlan,
    home: DataHome,
    files: tuple[Path, Path],
    adapter: Path | None,
    prompts: Sequence,
    labels: tuple[str, str, str, str],
) -> Iterator[Speed]:
    assistant = Assistant(home, ephemeral=True)
    try:
        ngrams = CacheSettings(enabled=labels[2] != "direct")
        assistant.load(*files, ModelSettings(threads=plan.threads), ngrams, adapter=adapter)
        measured = engine_of(assistant).measured()
        for temperature in plan.temperatures:
            memories = {method: Memory.with_cost(measured.copy()) for method in METHODS}
            traces: dict[str, list[Trace]] = {method: [] for method in METHODS}
            for number, prompt in enumerate(prompts):
                turn = number % len(METHODS)
                for method in METHODS[turn:] + METHODS[:turn]:
                    engine_of(assistant).forget()
                    engine_of(assistant).memory = memories[method]
                    sampling = sampling_of(temperature, seed=number, max_tokens=plan.test_tokens)
                    events = assistant.answer(AnswerRequest(prompt.messages, sampling, draft_settings(method)))
                    traces[method].append(record(events))
            for method in METHODS[1:]:
                yield _speed((*labels, temperature, method), traces["plain"], traces[method])
    finally:
        assistant.close()


def _speed(labels: tuple[str, str, str, str, Column, str], plain: Sequence[Trace], found: Sequence[Trace]) -> Speed:
    times = np.array([[p.decode, p.tokens, f.decode, f.tokens] for p, f in zip(plain, found, strict=True)])
    rng = np.random.default_rng(0)
    drawn = times[rng.integers(len(times), size=(RESAMPLES, len(times)))].sum(1)
    ratio = lambda t: (t[..., 0] / t[..., 1]) / (t[..., 2] / t[..., 3])  # noqa: E731
    low, high = np.quantile(ratio(drawn), [0.025, 0.975])
    rounds = [done for trace in found for done in trace.rounds]
    proposed, passes = sum(t.proposed for t in found), sum(len(t.rounds) for t in found)
    total = times.sum(0)
    return Speed(
        *labels, float(total[3] / total[2]), float(ratio(total)), (float(low), float(high)),
        sum(t.accepted for t in found) / max(proposed, 1), float(total[3] / max(passes, 1)),
        tokens=int(total[3]), drafted=sum(r.drafted for r in rounds),
        widths=dict(sorted(Counter(r.proposed + 1 for r in rounds).items())),
        answers=len(found), long=sum(t.tokens >= LONG for t in found),
    )  # fmt: skip


def line(s: Speed) -> str:
    low, high = s.speedup_ci
    return (
        f"{s.target:18} {s.task:9} {s.condition:9} {s.regime} {columns.label(s.temperature):8} {s.method:8} "
        f"x{s.speedup:.2f} [{low:.2f}, {high:.2f}]  acceptance {s.acceptance:.3f}  tok/pass {s.tokens_per_pass:.2f}"
    )
