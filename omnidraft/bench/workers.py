"""`bench workers`: a target over workers at several delays against one process: tokens per second, C(n), bytes a pass.

Plain and adaptive decoding answer the same prompts with the same seeds in turn, from cold KV caches. The ids of every
answer are compared with those of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from omnidraft.app.assistant import Assistant
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.bench import regimes
from omnidraft.bench.network import Network, network
from omnidraft.bench.speed import draft_settings
from omnidraft.decoding.events import Finished, Round
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.lab.prompts import load_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import CacheSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome

METHODS = ("plain", "adaptive")
SHOWN = (1, 2, 3, 4, 5, 6, 8)  # widths of C(n)
_OVERHEADS = 20  # passes of which the child's own cost is the median


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. delays: milliseconds of a round trip, of each a row; split: shares, this machine's first."""

    regime: str
    tasks: Sequence[str]
    prompts: int
    max_tokens: int
    temperature: float
    delays: Sequence[float]
    workers: int = 2
    split: str | None = None
    threads: int = 0
    adapter: Path | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run it. plain, adaptive: tokens per second of decoding; costs: C(n) in milliseconds by width; sent,
    received: bytes of a pass; child: milliseconds a pass takes longer than the model; same: answers whose ids are those
    of one process, near: others that differ from a near-tie on."""

    where: str
    delay: float | None
    plain: float
    adaptive: float
    speedup: float
    tokens_per_pass: float
    acceptance: float
    costs: dict[int, float]
    step: float
    sent: dict[str, float]
    received: dict[str, float]
    child: float
    same: int
    near: int
    answers: int


Answers = dict[str, list[tuple[Trace, set[int]]]]  # by method: traces and the positions of near-ties


def run(home: DataHome, plan: Plan, target: Path, drafter: Path) -> Iterator[Row]:
    """One process first, then each delay."""
    alone: Answers | None = None
    for delay in (None, *plan.delays):
        with network(plan.workers, delay, plan.threads) if delay is not None else nullcontext() as net:
            row, answers = _measure(home, plan, target, drafter, net, delay, alone)
        alone = alone or answers
        yield row


def _measure(
    home: DataHome, plan: Plan, target: Path, drafter: Path, net: Network | None, delay: float | None,
    alone: Answers | None,
) -> tuple[Row, Answers]:  # fmt: skip
    assistant = Assistant(home, ephemeral=True)
    try:
        files, adapter = _files(home, plan, target, drafter)
        settings = ModelSettings(
            threads=plan.threads, workers=net.workers if net else None, split=plan.split if net else None
        )
        assistant.load(*files, settings, CacheSettings(), adapter=adapter)
        assistant.measure_near_ties()
        assert assistant.engine is not None
        cost = assistant.engine.measured()
        memories = {method: Memory.with_cost(cost.copy()) for method in METHODS}
        answers, traffic = _answers(assistant, plan, net, memories)
        child = _child_cost(assistant)
    finally:
        assistant.close()
    same, near = _compared(alone or answers, answers)
    speeds = {m: sum(t.tokens for t, _ in found) / sum(t.decode for t, _ in found) for m, found in answers.items()}
    rounds = [r for trace, _ in answers["adaptive"] for r in trace.rounds]
    proposed = sum(r.proposed for r in rounds)
    return Row(
        net.kind if net else "one process", delay, speeds["plain"], speeds["adaptive"],
        speeds["adaptive"] / speeds["plain"], sum(r.emitted for r in rounds) / len(rounds),
        sum(r.accepted for r in rounds) / max(proposed, 1), {n: 1e3 * cost.alone(n) for n in SHOWN}, 1e3 * cost.step,
        {m: sent for m, (sent, _) in traffic.items()}, {m: received for m, (_, received) in traffic.items()},
        child, same, near, sum(map(len, answers.values())),
    ), answers  # fmt: skip


def _files(home: DataHome, plan: Plan, target: Path, drafter: Path) -> tuple[tuple[Path, Path], Path | None]:
    """((target, drafter), adapter) to load."""
    files = regimes.models(home, plan.regime, target, drafter)
    if plan.adapter is None:
        return files, None
    file, adapter = regimes.taught(home, plan.regime, plan.adapter, drafter)
    return (files[0], file), adapter


def _answers(
    assistant: Assistant, plan: Plan, net: Network | None, memories: dict[str, Memory]
) -> tuple[Answers, dict[str, tuple[float, float]]]:
    """The answers by method, and the bytes that a decoding pass sends and receives."""
    engine = assistant.engine
    assert engine is not None
    answers: Answers = {method: [] for method in METHODS}
    carried = {method: [0.0, 0.0, 0] for method in METHODS}
    prompts = [p for task in plan.tasks for p in load_prompts(task, split="test", limit=plan.prompts)]
    for number, prompt in enumerate(prompts):
        for method in METHODS if number % 2 else METHODS[::-1]:
            engine.forget()
            engine.memory = memories[method]
            sampling = SamplingSettings(temperature=plan.temperature, seed=number, max_tokens=plan.max_tokens)
            watched = _Watched(net)
            trace = record(
                watched.events(assistant.answer(AnswerRequest(prompt.messages, sampling, draft_settings(method))))
            )
            answers[method].append((trace, watched.near))
            for i in range(2):
                carried[method][i] += watched.carried[i]
            carried[method][2] += watched.passes
    return answers, {m: (sent / max(n, 1), received / max(n, 1)) for m, (sent, received, n) in carried.items()}


class _Watched:
    """Reads the network's counters behind the first token and at the end, so that the prompt's bytes do not count."""

    def __init__(self, net: Network | None) -> None:
        self.near: set[int] = set()
        self.carried = (0, 0)
        self.passes = 0
        self._net = net
        self._begun: tuple[int, int] | None = None

    def events(self, events: Iterator) -> Iterator:
        for event in events:
            if isinstance(event, Round):
                if self._begun is None:
                    self._begun = self._bytes()
                else:
                    self.passes += 1
            elif isinstance(event, Finished):
                self.near = set(event.statistics.near_tie_positions)
            yield event
        end, begun = self._bytes(), self._begun or (0, 0)
        self.carried = (end[0] - begun[0], end[1] - begun[1])

    def _bytes(self) -> tuple[int, int]:
        return self._net.bytes if self._net is not None else (0, 0)


def _child_cost(assistant: Assistant) -> float:
    """Milliseconds that a pass of one row takes longer than the model itself needs."""
    target = assistant.target
    if not isinstance(target, TargetProcess):
        return 0.0
    target.rewind(0)
    first = int(target.vocabulary.ordinary.nonzero()[0][0])
    target.extend([first] * 8, 1)
    found = []
    for _ in range(_OVERHEADS):
        target.rewind(8)
        target.extend([first], 1)
        found.append(target.overhead)
    return 1e3 * median(found)


def _compared(one: Answers, other: Answers) -> tuple[int, int]:
    """(answers with the same ids, answers that differ from a near-tie on)."""
    same = near = 0
    for method in METHODS:
        for (a, ties), (b, more) in zip(one[method], other[method], strict=True):
            first = next((i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=False)) if x != y), None)
            same += a.ids == b.ids
            near += first is not None and first in ties | more
    return same, near


def line(row: Row) -> str:
    costs = " ".join(f"C({n}) {ms:.1f}" for n, ms in row.costs.items())
    delay = f"{row.delay:g} ms" if row.delay is not None else "-"
    traffic = "  ".join(
        f"{method} {row.sent[method] / 1e3:.0f}+{row.received[method] / 1e3:.0f} kB" for method in METHODS
    )
    return (
        f"{row.where:20} {delay:>6}  plain {row.plain:6.2f} tok/s  adaptive {row.adaptive:6.2f}  x{row.speedup:.2f}  "
        f"tok/pass {row.tokens_per_pass:.2f}  acc {row.acceptance:.2f}  {costs} ms  D {row.step:.2f} ms  "
        f"a pass: {traffic}  child {row.child:.2f} ms  same {row.same}+{row.near}/{row.answers}"
    )
