"""`bench learn`: what online learning gains, by the app's own updates and the real engine, learning frozen at the test.

A stream is the answers of one target to one task under one seed. What a target says does not depend on who drafts, so
it is answered once and learned from under every condition: `direct` (the untrained drafter by the direct map alone, the
paper's SpD_DM), `cache` (with the n-gram cache, of other sizes too), and each loss (with the cache, learned answer by
answer, in the app's training process). A cell is a stream under a condition.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.app.models_list import choose_target, need_drafter
from omnidraft.bench.plans import LOSSES, Learn, Work, decides
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import SettingsError
from omnidraft.lab import statistics as stats
from omnidraft.lab.experiment import (
    FIXED,
    PLAIN,
    Pair,
    answers,
    column_of,
    columns,
    label,
    material,
    name_of,
)
from omnidraft.lab.prompts import Prompts, choose
from omnidraft.lab.results import Columns, Report, Table
from omnidraft.lab.stream import Stream
from omnidraft.learning.adapters.versions import can_merge, write_merged
from omnidraft.learning.material.record import CAPTURE, Record, decode, encode
from omnidraft.learning.training.process import TrainingProcess
from omnidraft.learning.update import Update
from omnidraft.prompting.prompted_model import Message
from omnidraft.settings.config import CacheSettings, LearningSettings, ModelSettings, SamplingSettings
from omnidraft.vocab.ngram_cache import NgramCache

DIRECT, CACHE = "direct", "cache"
# A run may go on with more of these; the drafter is known by its contents.
_LATER = ("target", "tasks", "loss", "seeds", "threads", "capacity")
_POLICIES = ("lru", "lfu")
_LONG = 32
Cell = dict[str, Any]  # a stream's fields, the condition, and what was found


def run(plan: Learn, work: Work) -> Iterator[Report]:
    """Every stream under every condition."""
    if unknown := [loss for loss in plan.loss if loss not in LOSSES]:
        raise SettingsError(f"There is no loss {unknown[0]}; known are {', '.join(LOSSES)}.")
    found = []
    for seed in range(plan.seeds):
        for target in [choose_target(name, work.home) for name in plan.target or (None,)]:
            for task in plan.tasks:
                asked = choose(task, seed, plan.train_prompts, plan.test_prompts)
                for cell in _Run(plan, work, seed, target, asked).results():
                    found.append(cell)
                    yield report(found)


class _Run:
    """One stream. Answers and models are made and loaded when the first missing condition needs them."""

    def __init__(self, plan: Learn, work: Work, seed: int, target: Path, asked: Prompts) -> None:
        self._plan, self._work, self._seed, self._target, self._asked = plan, work, seed, target, asked
        self._name = f"{target.stem}-{asked.task}-s{seed}"
        self._drafter = need_drafter(plan.drafter, work.home, target)
        self._columns = columns(plan.temperature)
        self._depends = decides(plan, _LATER, target, self._drafter, prompts=asked.digest)

    def results(self) -> Iterator[Cell]:
        try:
            for condition in (DIRECT, *self._caches, *self._plan.loss):
                found = self._cell(condition, partial(self._condition, condition))
                stream = {"target": self._target.stem, "task": self._asked.task, "seed": self._seed}
                yield {**stream, "condition": condition, **found}
        finally:
            if "_pair" in self.__dict__:
                self._pair.close()

    def _cell(self, name: str, make: Callable[[], Any]) -> Any:
        return self._work.cells.get(f"{self._name}/{name}", self._depends, make)

    def _place(self, name: str) -> Path:
        return self._work.cells.place(f"{self._name}/{name}")

    @cached_property
    def _pair(self) -> Pair:
        return Pair(self._work.home, self._target, self._drafter, ModelSettings(threads=self._plan.threads))

    @cached_property
    def _records(self) -> list[Record]:
        """The target's answers, as a replay rounds them."""
        return [decode(base64.b64decode(kept)) for kept in self._cell("answers", self._said)]

    def _said(self) -> list[str]:
        asked = ((f"{self._asked.task}-{i}", prompt.messages) for i, prompt in enumerate(self._asked.train))
        made = records(self._pair, asked, SamplingSettings(), self._plan.train_tokens, self._seed + 1)
        return [base64.b64encode(encode(record)).decode() for record in made]

    @property
    def _caches(self) -> dict[str, CacheSettings]:
        """The conditions of a cache alone."""
        sizes: list[Any] = [int(size) if size.isdecimal() else size for size in self._plan.capacity]
        sized = [CacheSettings(capacity=size, policy=policy, seed=False) for size in sizes for policy in _POLICIES]
        return {CACHE: CacheSettings()} | {f"{CACHE}-{one.capacity}-{one.policy}": one for one in sized}

    def _condition(self, condition: str) -> Cell:
        self._work.told(f"{self._name}: {condition}")
        if condition == DIRECT:
            return {"counts": self._counts(None, None)}
        if condition in self._caches:
            cache = self._pair.cache_after(self._records, self._caches[condition])
            return {"counts": self._counts(cache, None), "cache": cache.stats()}
        return self._learned(condition)

    def _learned(self, loss: str) -> Cell:
        """Learn from the stream. As in the app what it became is one file with the adapter added in, where such a copy
        can be made; it stays beside the answers, for `--drafter` of other benchmarks."""
        folder, kept = self._place(f"{loss}.run"), self._place(f"{loss}.gguf")
        shutil.rmtree(folder, ignore_errors=True)
        kept.unlink(missing_ok=True)
        settings, updates = LearningSettings(loss=loss, interval=self._plan.interval), []
        with (
            TrainingProcess() as process,
            Stream(folder, settings, process.does, self._plan.threads, 1000 * self._seed) as learner,
        ):
            learner.pair(self._pair.pairing)
            steps: list[Callable[[], Update | None]] = [partial(learner.add, record) for record in self._records]
            for update in filter(None, (step() for step in (*steps, learner.finish))):
                self._work.told(
                    f"{update.number} answers: {update.cpu_seconds:.1f} processor s, {update.peak_mb:.0f} MB"
                )
                updates.append({
                    "answers": update.number, "published": update.outcome == "published", "seconds": update.seconds,
                    "cpu": update.cpu_seconds, "peak_mb": update.peak_mb,
                })  # fmt: skip
        counts = self._counts(self._pair.cache_after(self._records, CacheSettings()), learner.adapter)
        if learner.adapter is not None and can_merge(self._drafter):
            write_merged(self._drafter, learner.adapter, kept)
        shutil.rmtree(folder)
        sums = {name: sum(update[name] for update in updates) for name in ("seconds", "cpu")}
        return {"counts": counts, "updates": updates, **sums}

    def _counts(self, cache: NgramCache | None, adapter: Path | None) -> dict[str, list]:
        """{sampling: [[proposed, accepted, tokens, passes, looped], ...]}; the same texts under every condition."""
        self._pair.serve(adapter)
        self._pair.freeze(cache)
        seed, longest = (self._seed + 7) * 1_000_003, self._plan.test_tokens
        found: dict[str, list] = {}
        for column in self._columns:
            made = answers(self._pair.answer, (FIXED,), self._asked.test, column, seed, longest)[FIXED]
            found[name_of(column)] = [[t.proposed, t.accepted, t.tokens, t.passes, int(t.degenerate)] for t in made]
        return found


def records(
    pair: Pair, asked: Iterable[tuple[str, Sequence[Message]]], drawn: SamplingSettings, max_tokens: int, seed: int = 1
) -> Iterator[Record]:  # fmt: skip
    """Records of (conversation, messages), each answer with a seed of its own; empty answers make none."""
    for number, (chat, messages) in enumerate(asked):
        sampling = replace(drawn, seed=seed * 1_000_003 + number, max_tokens=max_tokens)
        request = AnswerRequest(messages, sampling, source=chat, capture=CAPTURE)
        if (record := material(request, pair.answer(PLAIN, request), pair.pairing)) is not None:
            yield replace(record, time=0.0)


# Tables over the streams of a learning run.


def report(found: Sequence[Cell]) -> Report:
    made, spent = rows(found), costs(found)
    tables = [Table.of("Acceptance at draft length 4 [95%]", made, ACCEPTED)]
    if spent:
        tables.append(Table.of("What updates cost: processor seconds on their threads, and memory", spent, SPENT))
    return Report({"rows": made, "costs": spent}, tables)


def rows(found: Sequence[Cell]) -> list[dict[str, Any]]:
    """One per target, task, sampling and condition, training's costs as means over the seeds."""
    groups: dict[tuple[str, str, str], dict[str, list[Cell]]] = {}
    for cell in found:
        for column in cell["counts"]:
            group = groups.setdefault((cell["target"], cell["task"], column), {})
            group.setdefault(cell["condition"], []).append(cell)
    return [
        _row(target, task, column, condition, cells)
        for (target, task, column), group in groups.items()
        for condition, cells in group.items()
    ]


def _row(target: str, task: str, column: str, condition: str, cells: Sequence[Cell]) -> dict[str, Any]:
    counts, each = [cell["counts"][column] for cell in cells], [_cost(cell) for cell in cells]
    every = [answer for answers in counts for answer in answers]
    return {
        "target": target, "task": task, "temperature": column_of(column), "condition": condition, "seeds": len(cells),
        "acceptance": stats.rate(counts), "tokens_per_pass": stats.tokens_per_pass(counts), "answers": len(every),
        "long": sum(answer[2] >= _LONG for answer in every), "looped": sum(answer[4] for answer in every),
        **{name: float(np.mean([cost[name] for cost in each])) for name in each[0]},
    }  # fmt: skip


def _cost(cell: Cell) -> dict[str, float]:
    """What training, or filling the cache, came to in a stream."""
    if "updates" in cell:
        refused = sum(not update["published"] for update in cell["updates"])
        return {"training_seconds": cell["seconds"], "training_cpu": cell["cpu"],
                "updates": len(cell["updates"]), "refused": refused}  # fmt: skip
    return {"cache_learned": cell["cache"]["entries"]} if "cache" in cell else {}


def costs(found: Sequence[Cell]) -> list[dict[str, Any]]:
    """What the updates of each stream took, in processor seconds: the first one (its process began with it), the median
    of those behind it in the first and in the second half, and 100 answers."""
    made = []
    for cell in found:
        if updates := cell.get("updates"):
            cpu, answers = [update["cpu"] for update in updates], updates[-1]["answers"]
            early, late = cpu[1 : (len(cpu) + 1) // 2], cpu[(len(cpu) + 1) // 2 :]
            made.append({
                "target": cell["target"], "task": cell["task"], "seed": cell["seed"], "loss": cell["condition"],
                "answers": answers, "updates": len(cpu), "first": cpu[0],
                "early": float(np.median(early)) if early else None,
                "late": float(np.median(late)) if late else None,
                "per_100": 100 * sum(cpu) / answers, "peak_mb": max(update["peak_mb"] for update in updates),
            })  # fmt: skip
    return made


ACCEPTED: Columns = {
    "target": "target",
    "task": "task",
    "sampling": lambda row: label(row["temperature"]),
    "condition": "condition",
    "accepted": "acceptance",
    "tokens/pass": "tokens_per_pass",
    "answers (long, looped)": lambda row: f"{row['answers']} ({row['long']}, {row['looped']})",
    "updates (refused)": lambda row: f"{row['updates']:g} ({row['refused']:g})" if "updates" in row else None,
    "training, processor s": "training_cpu",
}
SPENT: Columns = {
    "target": "target", "task": "task", "seed": "seed", "loss": "loss", "answers": "answers", "updates": "updates",
    "first": "first", "first half": "early", "second half": "late", "100 answers": "per_100", "MB": "peak_mb",
}  # fmt: skip
