"""`bench learn`: what online learning gains, by the app's own updates and the real engine, learning frozen at the test.

A stream is the answers of one target to one task (or to all, one after the other: SEQUENCE) under one seed. What a
target says does not depend on who drafts, so it is answered once and learned from under every condition: `direct` (the
untrained drafter by the direct map alone, the paper's SpD_DM), `cache` (with the n-gram cache), and each loss (with the
cache, learned answer by answer, in the app's training process). A cell is a stream under a condition.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import learn_report, regimes
from omnidraft.bench.answering import joined, records
from omnidraft.bench.columns import Column, columns, name_of, sampling_of
from omnidraft.bench.learn_report import CACHE, DIRECT, SEQUENCE, Stream
from omnidraft.bench.pairs import Pair, Way, said
from omnidraft.bench.plans import LOSSES, Learn
from omnidraft.bench.questions import Prompts, choose, label
from omnidraft.bench.report import Report
from omnidraft.bench.runner import Work, decides
from omnidraft.errors import SettingsError
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.record import Record, decode, encode
from omnidraft.learning.training.stream import StreamLearner, StreamUpdate, quiet_torch
from omnidraft.learning.training_process import TrainingProcess
from omnidraft.settings.config import LearningSettings, ModelSettings
from omnidraft.vocab.ngram_cache import NgramCache

FIXED = Way("fixed:4")
# A run may go on with more of these; the drafter is known by its contents.
_LATER = ("target", "tasks", "loss", "seeds", "sequence", "threads", "drafter_shape")
ANSWERS = "answers"


def run(plan: Learn, work: Work) -> Iterator[Report]:
    found = []
    for one in results(plan, work):
        found.append(one)
        yield learn_report.report(found)


def results(plan: Learn, work: Work) -> Iterator[tuple[Stream, str, dict]]:
    """Every stream under every condition."""
    if unknown := [loss for loss in plan.loss if loss not in LOSSES]:
        raise SettingsError(f"There is no loss {unknown[0]}; known are {', '.join(LOSSES)}.")
    if plan.sequence and len(plan.tasks) < 2:
        raise SettingsError("A sequence takes at least two tasks.")
    quiet_torch(plan.threads)
    for seed in range(plan.seeds):
        for name in plan.target:
            target = choose_target(name, work.home)
            parts = [choose(task, seed, plan.train_prompts, plan.test_prompts) for task in plan.tasks]
            streams = [(part.task, [part]) for part in parts] + ([(SEQUENCE, parts)] if plan.sequence else [])
            for task, asked in streams:
                yield from _Run(plan, work, Stream(target.stem, task, seed), target, asked).results()


def adapter_of(folder: Path, target: Path, task: str, loss: str) -> Path | None:
    """What the stream with seed 0 learned by a loss, in the folder of the cells; None if no update was let through."""
    path = folder / Stream(target.stem, label(task), 0).name / f"{loss}.gguf"
    return path if path.is_file() else None


def answers_of(folder: Path, stream: Stream) -> list[Record]:
    """The answers a stream learned from, in the folder of the cells."""
    kept = json.loads((folder / stream.name / f"{ANSWERS}.json").read_bytes())["value"]
    return [record for part in _decoded(kept) for record in part]


class _Run:
    """One stream. Answers and models are made and loaded when the first missing condition needs them."""

    def __init__(self, plan: Learn, work: Work, stream: Stream, target: Path, parts: Sequence[Prompts]) -> None:
        self._plan, self._work, self._stream, self._target, self._parts = plan, work, stream, target, parts
        self._drafter = regimes.sized(work.home, need_drafter(plan.drafter, work.home), plan.drafter_shape)
        self._columns = columns(plan.temperature)
        self._depends = decides(plan, _LATER, target, self._drafter, prompts=[part.digest for part in parts])

    def results(self) -> Iterator[tuple[Stream, str, dict]]:
        try:
            for condition in (DIRECT, CACHE, *self._plan.loss):
                name, make = f"{self._stream.name}/{condition}", partial(self._condition, condition)
                yield self._stream, condition, self._work.cells.get(name, self._depends, make)
        finally:
            if "_pair" in self.__dict__:
                self._pair.close()

    def _place(self, name: str) -> Path:
        return self._work.cells.place(f"{self._stream.name}/{name}")

    @cached_property
    def _pair(self) -> Pair:
        return Pair(self._work.home, self._target, self._drafter, ModelSettings(threads=self._plan.threads))

    @cached_property
    def _answers(self) -> list[list[Record]]:
        """The target's answers part by part, as a replay rounds them; the expansion table lies beside them."""
        ExpansionTable.from_pair(self._pair.pair).save(self._place("table.npz"))
        make = lambda: [self._said(part) for part in self._parts]  # noqa: E731
        return _decoded(self._work.cells.get(f"{self._stream.name}/{ANSWERS}", self._depends, make))

    def _said(self, part: Prompts) -> list[str]:
        asked = ((f"{part.task}-{i}", part.task, prompt.messages) for i, prompt in enumerate(part.train))
        made = records(self._pair, asked, 1.0, self._plan.train_tokens, self._stream.seed + 1)
        made = joined(made, self._plan.train_tokens) if self._plan.joined else made
        return [base64.b64encode(encode(record)).decode() for record in made]

    @property
    def _records(self) -> list[Record]:
        return [record for part in self._answers for record in part]

    @cached_property
    def _cache(self) -> NgramCache:
        return self._pair.cache_after(said(self._records))

    def _condition(self, condition: str) -> dict[str, Any]:
        self._work.told(f"{self._stream.name}: {condition}")
        if condition == DIRECT:
            return {"counts": self._counts(None, None)}
        if condition == CACHE:
            return {"counts": self._counts(self._cache, None), "cache": self._cache.stats()}
        learned, adapter = self._learned(condition)
        return {"counts": self._counts(self._cache, adapter), **learned}

    def _learned(self, loss: str) -> tuple[dict[str, Any], Path | None]:
        """Learn from the stream and test along the way; the last version's adapter, if there is one."""
        folder, kept, answers = self._place(f"{loss}.run"), self._place(f"{loss}.gguf"), self._records
        shutil.rmtree(folder, ignore_errors=True)
        settings = replace(LearningSettings(), loss=loss, interval=self._plan.interval)
        process, threads = TrainingProcess(), self._plan.threads
        learner = StreamLearner(
            folder, self._drafter, settings, 1000 * self._stream.seed, threads=threads, process=process
        )
        vocabulary = self._pair.pair.target.fingerprint
        learner.switched(vocabulary, self._stream.target, {vocabulary: str(self._place("table.npz"))})
        updates, stops, served = [], self._stops(settings.interval), None
        try:
            for update in live(learner, answers):
                served = update.version.adapter if update.version else None
                facts = {name: value for name, value in asdict(update).items() if name != "version"}
                self._work.told(f"{update.answers} answers: {update.cpu:.1f} processor s, {update.peak_mb:.0f} MB")
                if update.answers in stops:
                    facts["counts"] = self._counts(self._cache, served, self._columns[:1])
                updates.append(facts)
        finally:
            process.kill()
        if served is not None:
            shutil.copyfile(served, kept)
        shutil.rmtree(folder)
        sums = {name: sum(update[name] for update in updates) for name in ("seconds", "cpu")}
        return {"updates": updates, **sums}, kept if served is not None else None

    def _stops(self, step: int) -> set[int]:
        """Numbers of answers after which to test along the way: the ends of a sequence's tasks."""
        ends = list(accumulate(map(len, self._answers)))
        return {min(-(-end // step) * step, ends[-1]) for end in ends} if len(ends) > 1 else set()

    def _counts(self, cache: NgramCache | None, adapter: Path | None, asked: Sequence[Column] = ()) -> dict:
        """{sampling: {task: [[proposed, accepted, tokens, passes, looped], ...]}}; the same texts under every
        condition."""
        self._pair.draft_with(cache, adapter)
        seed, longest = (self._stream.seed + 7) * 1_000_003, self._plan.test_tokens
        found: dict[str, dict[str, list]] = {}
        for column in asked or self._columns:
            for part in self._parts:
                rows = found.setdefault(name_of(column), {}).setdefault(part.task, [])
                for number, prompt in enumerate(part.test):
                    sampling = sampling_of(column, seed=seed + number, max_tokens=longest)
                    trace = self._pair.answer(FIXED, prompt.messages, sampling)
                    rows.append(
                        [trace.proposed, trace.accepted, trace.tokens, len(trace.rounds), int(trace.degenerate)]
                    )
        return found


def live(learner: StreamLearner, records: Sequence[Record]) -> Iterator[StreamUpdate]:
    """Updates after every few answers (the learner's interval) and after the last one."""
    for record in records:
        if (update := learner.add(record)) is not None:
            yield update
    if (update := learner.finish()) is not None:
        yield update


def _decoded(kept: Sequence[Sequence[str]]) -> list[list[Record]]:
    return [[decode(base64.b64decode(blob)) for blob in part] for part in kept]
