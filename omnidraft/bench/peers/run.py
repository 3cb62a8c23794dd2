"""`bench peers`: programs answer the same prompts with the same weights, in turns, and one that fails is reported.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench import plans, regimes
from omnidraft.bench.columns import Column, columns, label, name_of
from omnidraft.bench.peers.models import models_of, openings
from omnidraft.bench.peers.peer import PLAIN, Answer, Opening, Peer, Question
from omnidraft.bench.peers.tables import report
from omnidraft.bench.questions import Prompts, choose
from omnidraft.bench.report import Report
from omnidraft.bench.runner import Told, Work, decides, in_turns
from omnidraft.errors import OmniDraftError, SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

_WARM_UP_TOKENS = 12
_LATER = ("target", "tasks", "temperature", "peers", "threads", "server")


def run(plan: plans.Peers, work: Work) -> Iterator[Report]:
    """All cells so far."""
    if unknown := [peer for peer in plan.peers if peer not in plans.PEERS]:
        raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(plans.PEERS)}.")
    regimes.shape_of_drafter(plan.regime, plan.drafter_shape)
    prompts = [choose(task, 0, max(plan.learn_prompts, 1), plan.prompts) for task in plan.tasks]

    def opened() -> tuple[Path, Mapping[str, Opening]]:
        models = models_of(plan, work, prompts)
        return models.target, openings(plan, work.home, models)

    yield from compared(plan, work, prompts, opened)


def compared(
    plan: plans.Peers, work: Work, prompts: Sequence[Prompts],
    opened: Callable[[], tuple[Path, Mapping[str, Opening]]],
) -> Iterator[Report]:  # fmt: skip
    """opened: a GGUF of the target and how to load each program, asked for only if a cell is missing."""
    target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
    cells: list[dict[str, Any]] = []
    for column in columns(plan.temperature):
        with ExitStack() as closing:
            bench = _Bench(plan, work.told, opened, closing)
            for part in prompts:
                depends = decides(plan, _LATER, target, drafter, peers=list(plan.peers), prompts=part.digest)
                make = partial(bench.cell, column, part)
                cells.append(work.cells.get(f"{part.task}-{name_of(column)}", depends, make))
                yield report(cells, plan)


class _Bench:
    """The programs, loaded when the first cell is missing."""

    def __init__(
        self, plan: plans.Peers, told: Told, opened: Callable[[], tuple[Path, Mapping[str, Opening]]],
        closing: ExitStack,
    ) -> None:  # fmt: skip
        self._plan, self._told, self._opened, self._closing = plan, told, opened, closing
        self._failed: dict[str, str] = {}
        self._notes: dict[str, list[str]] = {}

    @cached_property
    def _peers(self) -> dict[str, Peer]:
        target, programs = self._opened()
        self._vocabulary = read_gguf_vocabulary(target)
        self._template = ChatTemplate.from_model(read_info(target), self._vocabulary)
        loaded: dict[str, Peer] = {}
        for name, opening in programs.items():
            self._told(f"loading {name}")
            try:
                loaded[name] = peer = opening()
            except Exception as error:  # another program may fail in any way; the rest goes on
                self._fail(name, error)
                continue
            self._closing.callback(peer.close)
            self._notes[name] = peer.notes
        if not loaded:
            raise SettingsError("None of the programs could be loaded: " + "; ".join(self._failed.values()))
        return loaded

    def cell(self, column: Column, part: Prompts) -> dict[str, Any]:
        """answers: {"program|way": one a prompt}, of ways that answered all; same: {the same: answers that are plain
        decoding's of the same program}; promised: ways that promise it; failed, notes: by program."""
        ways = [(name, way) for name, peer in self._peers.items() for way in peer.ways]
        warm = replace(self._question(column, 0, part.train[-1]), max_tokens=_WARM_UP_TOKENS)
        for name, way in ways:
            self._ask(name, way, warm)
        self._told(f"{part.task} {label(column)}: {len(part.test)} prompts, {len(ways)} ways")
        came = in_turns(
            ways, part.test, lambda way, number, prompt: self._ask(*way, self._question(column, number, prompt))
        )
        found = {way: [one for one in answers if one is not None] for way, answers in came.items()}
        whole = {way: answers for way, answers in found.items() if len(answers) == len(part.test)}
        drafted = [(name, way) for name, way in whole if way != PLAIN and (name, PLAIN) in whole]
        return {
            "task": part.task, "column": column,
            "answers": {"|".join(way): [asdict(replace(one, ids=[])) for one in answers]
                        for way, answers in whole.items()},
            "same": {"|".join(way): _same(whole[way[0], PLAIN], whole[way]) for way in drafted},
            "promised": ["|".join(way) for way in drafted if column == 0 or self._peers[way[0]].exact],
            "failed": self._failed, "notes": self._notes,
        }  # fmt: skip

    def _question(self, column: Column, number: int, prompt: Prompt) -> Question:
        messages = list(prompt.messages)
        ids = prompt_ids(self._template, self._vocabulary, messages, [])
        return Question(messages, ids, column, self._plan.seed + number, self._plan.max_tokens)

    def _ask(self, name: str, way: str, question: Question) -> Answer | None:
        if name not in self._peers:
            return None
        try:
            return self._peers[name].answer(way, question)
        except Exception as error:  # as above
            self._fail(name, error)
            self._peers.pop(name)
            return None

    def _fail(self, name: str, error: Exception) -> None:
        said = str(error).strip() or type(error).__name__
        self._failed[name] = said if isinstance(error, OmniDraftError) else f"{type(error).__name__}: {said[:400]}"
        self._told(f"{name} failed: {self._failed[name]}")


def _same(plain: Sequence[Answer], found: Sequence[Answer]) -> int:
    return sum(one.ids == other.ids for one, other in zip(plain, found, strict=True))
