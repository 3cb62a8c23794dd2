"""`bench learn`: what online learning gains, by the app's own updates and the real engine, learning frozen at the test.

A stream is the answers of one target to one task under one seed. What a target says does not depend on who drafts, so
it is answered once and learned from under every condition: `direct` (the untrained drafter by the direct map alone, the
paper's SpD_DM), `cache` (with the n-gram cache, of other sizes too), and each loss (with the cache, learned answer by
answer, in the app's training process). A cell is a stream under a condition.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.backends.prompting.prompt import ends_without_space, prompt_ids
from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.bench import learn_report
from omnidraft.bench.learn_report import CACHE, DIRECT, Stream
from omnidraft.bench.pairs import Pair, said
from omnidraft.bench.questions import Prompts, choose, label
from omnidraft.bench.report import Report, columns, name_of, sampling_of
from omnidraft.bench.runner import LOSSES, Learn, Work, decides, or_first
from omnidraft.decoding.events import Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import SettingsError
from omnidraft.learning.adapters.files import can_merge, write_merged
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.record import CAPTURE, Record, capture, decode, encode
from omnidraft.learning.training.stream import StreamLearner, quiet_torch
from omnidraft.learning.training_process import TrainingProcess
from omnidraft.learning.update import Estimates, Update
from omnidraft.settings.config import CacheSettings, DraftSettings, LearningSettings, ModelSettings, SamplingSettings
from omnidraft.vocab.ngram_cache import NgramCache

FIXED = "fixed:4"
# A run may go on with more of these; the drafter is known by its contents.
_LATER = ("target", "tasks", "loss", "seeds", "threads", "capacity")
ANSWERS = "answers"
_POLICIES = ("lru", "lfu")


def run(plan: Learn, work: Work) -> Iterator[Report]:
    found = []
    for one in results(plan, work):
        found.append(one)
        yield learn_report.report(found)


def results(plan: Learn, work: Work) -> Iterator[tuple[Stream, str, dict]]:
    """Every stream under every condition."""
    if unknown := [loss for loss in plan.loss if loss not in LOSSES]:
        raise SettingsError(f"There is no loss {unknown[0]}; known are {', '.join(LOSSES)}.")
    quiet_torch(plan.threads)
    for seed in range(plan.seeds):
        for name in or_first(plan.target):
            target = choose_target(name, work.home)
            for task in plan.tasks:
                asked = choose(task, seed, plan.train_prompts, plan.test_prompts)
                yield from _Run(plan, work, Stream(target.stem, asked.task, seed), target, asked).results()


def drafter_of(folder: Path, target: Path, task: str, loss: str) -> Path | None:
    """What the drafter became by a loss in the stream with seed 0, in the folder of the cells; None if no update was
    let through or no such copy can be made."""
    path = folder / Stream(target.stem, label(task), 0).name / f"{loss}.gguf"
    return path if path.is_file() else None


class _Run:
    """One stream. Answers and models are made and loaded when the first missing condition needs them."""

    def __init__(self, plan: Learn, work: Work, stream: Stream, target: Path, asked: Prompts) -> None:
        self._plan, self._work, self._stream, self._target, self._asked = plan, work, stream, target, asked
        self._drafter = need_drafter(plan.drafter, work.home, target)
        self._columns = columns(plan.temperature)
        self._depends = decides(plan, _LATER, target, self._drafter, prompts=asked.digest)

    def results(self) -> Iterator[tuple[Stream, str, dict]]:
        try:
            for condition in (DIRECT, *self._caches, *self._plan.loss):
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
    def _records(self) -> list[Record]:
        """The target's answers, as a replay rounds them; the expansion table lies beside them."""
        ExpansionTable.from_pair(self._pair.pair).save(self._place("table.npz"))
        return _decoded(self._work.cells.get(f"{self._stream.name}/{ANSWERS}", self._depends, self._said))

    def _said(self) -> list[str]:
        task = self._asked.task
        asked = ((f"{task}-{i}", task, prompt.messages) for i, prompt in enumerate(self._asked.train))
        made = records(self._pair, asked, SamplingSettings(), self._plan.train_tokens, self._stream.seed + 1)
        return [base64.b64encode(encode(record)).decode() for record in made]

    @property
    def _caches(self) -> dict[str, CacheSettings]:
        """The conditions of a cache alone."""
        sizes: list[Any] = [int(size) if size.isdecimal() else size for size in self._plan.capacity]
        sized = [CacheSettings(capacity=size, policy=policy) for size in sizes for policy in _POLICIES]
        return {CACHE: CacheSettings()} | {f"{CACHE}-{one.capacity}-{one.policy}": one for one in sized}

    def _cache_of(self, condition: str) -> NgramCache:
        return self._pair.cache_after(said(self._records), self._caches[condition])

    def _condition(self, condition: str) -> dict[str, Any]:
        self._work.told(f"{self._stream.name}: {condition}")
        if condition == DIRECT:
            return {"counts": self._counts(None, None)}
        if condition in self._caches:
            cache = self._cache_of(condition)
            return {"counts": self._counts(cache, None), "cache": cache.stats()}
        return self._learned(condition)

    def _learned(self, loss: str) -> dict[str, Any]:
        """Learn from the stream. As in the app what it became is one file with the adapter added in, where such a copy
        can be made; it stays beside the answers, for `--drafter` of other benchmarks."""
        folder, kept = self._place(f"{loss}.run"), self._place(f"{loss}.gguf")
        shutil.rmtree(folder, ignore_errors=True)
        kept.unlink(missing_ok=True)
        settings = replace(LearningSettings(), loss=loss, interval=self._plan.interval)
        process, threads = TrainingProcess(), self._plan.threads
        learner = StreamLearner(
            folder, self._drafter, settings, 1000 * self._stream.seed, threads=threads, process=process
        )
        vocabulary = self._pair.pair.target.fingerprint
        learner.switched(vocabulary, self._stream.target, self._place("table.npz"))
        updates: list[dict[str, Any]] = []
        try:
            for update in live(learner, self._records):
                cpu, peak = update.cpu_seconds, update.peak_mb
                self._work.told(f"{update.number} answers: {cpu:.1f} processor s, {peak:.0f} MB")
                updates.append({
                    "answers": update.number, "published": update.outcome == "published", "seconds": update.seconds,
                    "cpu": cpu, "peak_mb": peak, "estimate": pooled(update.before),
                })  # fmt: skip
        finally:
            process.kill()
        served = learner.choice.adapter
        counts = self._counts(self._cache_of(CACHE), served)
        if served is not None and can_merge(self._drafter):
            write_merged(self._drafter, served, kept)
        shutil.rmtree(folder)
        sums = {name: sum(update[name] for update in updates) for name in ("seconds", "cpu")}
        return {"counts": counts, "updates": updates, **sums}

    def _counts(self, cache: NgramCache | None, adapter: Path | None) -> dict[str, list]:
        """{sampling: [[proposed, accepted, tokens, passes, looped], ...]}; the same texts under every condition."""
        self._pair.draft_with(cache, adapter)
        seed, longest = (self._stream.seed + 7) * 1_000_003, self._plan.test_tokens
        found: dict[str, list] = {}
        for column in self._columns:
            rows = found.setdefault(name_of(column), [])
            for number, prompt in enumerate(self._asked.test):
                sampling = sampling_of(column, seed=seed + number, max_tokens=longest)
                trace = self._pair.answer(FIXED, prompt.messages, sampling)
                rows.append([trace.proposed, trace.accepted, trace.tokens, len(trace.rounds), int(trace.degenerate)])
        return found


def live(learner: StreamLearner, records: Sequence[Record]) -> Iterator[Update]:
    """Updates after every few answers (the learner's interval) and after the last one."""
    for record in records:
        if (update := learner.add(record)) is not None:
            yield update
    if (update := learner.finish()) is not None:
        yield update


def pooled(slices: Estimates) -> dict[str, float]:
    """Acceptance estimates over all held-out tokens, "old" and "new" together."""
    tokens = sum(part["tokens"] for part in slices.values())
    return {
        name: sum(part[name] * part["tokens"] for part in slices.values()) / tokens
        for name in ("greedy", "overlap")
        if tokens
    }


def _decoded(kept: Sequence[str]) -> list[Record]:
    return [decode(base64.b64decode(blob)) for blob in kept]


def records(
    pair: Pair, asked: Iterable[tuple[str, str, Sequence[Message]]], drawn: SamplingSettings, max_tokens: int,
    seed: int = 1,
) -> Iterator[Record]:  # fmt: skip
    """Records of (conversation, task, messages), each answer with a seed of its own; empty answers make none."""
    for number, (chat, task, messages) in enumerate(asked):
        sampling = replace(drawn, seed=seed * 1_000_003 + number, max_tokens=max_tokens)
        record = answered(pair, list(messages), sampling, chat, task)
        if record is not None:
            yield record


def answered(
    pair: Pair, messages: list[Message], sampling: SamplingSettings, chat: str, task: str | None
) -> Record | None:
    request = AnswerRequest(messages, sampling, DraftSettings(enabled=False), capture=CAPTURE)
    events = pair.engine.answer(request)
    tokens = [event for event in events if isinstance(event, Token)]
    prompt = prompt_ids(pair.template, pair.pair.drafter, messages)
    space = ends_without_space(pair.template.render(messages))
    return capture(
        pair.pair, prompt, tokens, virtual_space=space, chat=chat, target=pair.engine.target.model.name, task=task,
        temperature=sampling.temperature,
    )  # fmt: skip
