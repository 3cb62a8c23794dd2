"""`bench workers`: a target over workers at several delays against one process: tokens per second and C(n).

Plain and adaptive decoding answer the same prompts with the same seeds in turn, from cold KV caches. The ids of every
answer are compared with those of one process. Workers run on this machine, behind relays that delay; a run begins
anew, for what one process says is what all is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import plans, regimes
from omnidraft.bench.pairs import PLAIN, Pair, Way
from omnidraft.bench.relay import lent
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work, in_turns
from omnidraft.decoding.events import Finished
from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import Prompt, load_prompts
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.addresses import Address, parse_split
from omnidraft.settings.config import ModelSettings, SamplingSettings

WAYS = (PLAIN, Way("adaptive"))
SHOWN = (1, 2, 3, 4, 5, 6, 8)  # widths of C(n)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run it. delay: milliseconds of a round trip, None in one process; plain, adaptive: tokens per second
    of decoding; costs: C(n) in milliseconds by width, step: of a draft step; same: answers whose ids are those of one
    process, near: others that differ from a near-tie on."""

    delay: float | None
    plain: float
    adaptive: float
    speedup: float
    tokens_per_pass: float
    acceptance: float
    costs: dict[int, float]
    step: float
    same: int
    near: int
    answers: int


class Answered(NamedTuple):
    """near: positions of near-ties."""

    trace: Trace
    near: set[int]


Answers = dict[Way, list[Answered]]


def run(plan: plans.Workers, work: Work) -> Iterator[Report]:
    """One process first, then each delay."""
    parse_split(plan.split)
    if plan.adapter is not None and not Path(plan.adapter).is_file():
        raise StorageError(f"There is no file {plan.adapter}.")
    rows: list[Row] = []
    alone: Answers | None = None
    for delay in (None, *_delays(plan.delays)):
        work.told("one process" if delay is None else f"{plan.count} workers, {delay:g} ms")
        with ExitStack() as closing:
            count = 0 if delay is None else plan.count
            found = [closing.enter_context(lent(delay or 0.0, plan.threads)) for _ in range(count)]
            row, answers = _measure(plan, work, found, delay, alone)
        alone = alone or answers
        rows.append(row)
        yield Report([asdict(one) for one in rows], [_table(rows)])


def _delays(texts: Sequence[str]) -> list[float]:
    try:
        delays = [float(part) for part in texts]
    except ValueError:
        delays = [-1.0]
    if not all(0 <= delay <= 1000 for delay in delays):
        raise SettingsError(f"--delays takes milliseconds from 0 to 1000, not {','.join(texts)[:40]!r}.")
    return delays


def _measure(
    plan: plans.Workers, work: Work, found: Sequence[Address], delay: float | None, alone: Answers | None
) -> tuple[Row, Answers]:
    """The figures and the answers; `alone` are those of one process, None if these are."""
    names = ", ".join(map(str, found)) or None
    settings = ModelSettings(threads=plan.threads, workers=names, split=plan.split if found else None)
    target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
    (file, bare), adapter = regimes.models(work.home, plan.regime, target, drafter), None
    if plan.adapter is not None:
        bare, adapter = regimes.taught(work.home, plan.regime, Path(plan.adapter), drafter)
    prompts = [p for task in plan.tasks for p in load_prompts(task, split="test", limit=plan.prompts)]
    with Pair(work.home, file, bare, settings, adapter=adapter) as pair:
        pair.assistant.measure_near_ties()
        answers, cost = in_turns(WAYS, prompts, partial(_ask, plan, pair)), pair.cost()
    same, near = _compared(alone or answers, answers)
    plain, own = (sum(a.trace.tokens for a in way) / sum(a.trace.decode for a in way) for way in answers.values())
    rounds = [r for answer in answers[WAYS[1]] for r in answer.trace.rounds]
    return Row(
        delay, plain, own, own / plain, sum(r.emitted for r in rounds) / len(rounds),
        sum(r.accepted for r in rounds) / max(sum(r.proposed for r in rounds), 1),
        {n: 1e3 * cost.alone(n) for n in SHOWN}, 1e3 * cost.step, same, near, sum(map(len, answers.values())),
    ), answers  # fmt: skip


def _ask(plan: plans.Workers, pair: Pair, way: Way, number: int, prompt: Prompt) -> Answered:
    sampling = SamplingSettings(temperature=plan.temperature, seed=number, max_tokens=plan.max_tokens)
    events = list(pair.events(way, prompt.messages, sampling))
    near = {p for event in events if isinstance(event, Finished) for p in event.statistics.near_tie_positions}
    return Answered(record(events), near)


def _compared(one: Answers, other: Answers) -> tuple[int, int]:
    """(answers with the same ids, answers that differ from a near-tie on)."""
    same = near = 0
    for way in WAYS:
        for a, b in zip(one[way], other[way], strict=True):
            ids = zip(a.trace.ids, b.trace.ids, strict=False)
            first = next((i for i, (x, y) in enumerate(ids) if x != y), None)
            same += a.trace.ids == b.trace.ids
            near += first is not None and first in a.near | b.near
    return same, near


def _table(rows: Sequence[Row]) -> Table:
    return Table(
        "A target over workers on this machine, behind relays; passes and draft steps in milliseconds",
        ["round trip added", "plain, tokens/s", "adaptive", "speedup", "tokens/pass", "accepted", "C(1)", "C(5)", "D",
         "same text (near-ties)"],
        [["one process" if row.delay is None else f"{row.delay:g} ms", row.plain, row.adaptive, row.speedup,
          row.tokens_per_pass, row.acceptance, row.costs[1], row.costs[5], row.step,
          f"{row.same} of {row.answers} ({row.near})"] for row in rows],
    )  # fmt: skip
