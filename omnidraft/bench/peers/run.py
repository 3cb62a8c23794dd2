"""`bench peers`: programs answer the same prompts with the same weights, in turns.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench import plans
from omnidraft.bench.columns import Column, columns, label, name_of
from omnidraft.bench.peers.llama_server import LlamaServer
from omnidraft.bench.peers.ours import Ours
from omnidraft.bench.peers.peer import PLAIN, Answer, Models, Opening, Peer, Question
from omnidraft.bench.peers.tables import report
from omnidraft.bench.questions import Prompts, choose
from omnidraft.bench.report import Report
from omnidraft.bench.runner import Told, Work, decides, in_turns
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.processes.cores import physical_cores
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

_WARM_UP_TOKENS = 12
N_CTX = 1024
PROGRAMS = {"server": "llama.cpp server", "ours": "omnidraft"}
_LATER = ("target", "tasks", "temperature", "peers", "threads", "server")


def run(plan: plans.Peers, work: Work) -> Iterator[Report]:
    """All cells so far."""
    if unknown := [peer for peer in plan.peers if peer not in plans.PEERS]:
        raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(plans.PEERS)}.")
    target = choose_target(plan.target, work.home)
    drafter = need_drafter(plan.drafter, work.home, target)
    helper = None if plan.helper == "none" else choose_target(plan.helper, work.home)
    models = Models(target, drafter, plan.threads or physical_cores(), N_CTX, helper)
    program = Path(plan.server) if plan.server else work.home.cache / "peers" / "llama-server"
    known: dict[str, Opening] = {
        "server": lambda: LlamaServer(models, program),
        "ours": lambda: Ours(work.home, models),
    }
    yield from compared(plan, work, models, {PROGRAMS[peer]: known[peer] for peer in plan.peers})


def compared(plan: plans.Peers, work: Work, models: Models, programs: Mapping[str, Opening]) -> Iterator[Report]:
    """programs: how to load each, which happens only if a cell is missing."""
    prompts, pair = [choose(task, 0, 1, plan.prompts) for task in plan.tasks], (models.target, models.drafter)
    cells: list[dict[str, Any]] = []
    for column in columns(plan.temperature):
        with ExitStack() as closing:
            bench = _Bench(plan, work.told, models, programs, closing)
            for part in prompts:
                depends = decides(plan, _LATER, *pair, peers=list(plan.peers), prompts=part.digest)
                make = partial(bench.cell, column, part)
                cells.append(work.cells.get(f"{part.task}-{name_of(column)}", depends, make))
                yield report(cells, plan)


class _Bench:
    """The programs, loaded when the first cell is missing."""

    def __init__(
        self, plan: plans.Peers, told: Told, models: Models, programs: Mapping[str, Opening], closing: ExitStack
    ) -> None:
        self._plan, self._told, self._models, self._programs, self._closing = plan, told, models, programs, closing

    @cached_property
    def _peers(self) -> dict[str, Peer]:
        self._vocabulary = read_gguf_vocabulary(self._models.target)
        self._template = ChatTemplate.from_model(read_info(self._models.target), self._vocabulary)
        loaded: dict[str, Peer] = {}
        for name, opening in self._programs.items():
            self._told(f"loading {name}")
            loaded[name] = opening()
            self._closing.callback(loaded[name].close)
        return loaded

    def cell(self, column: Column, part: Prompts) -> dict[str, Any]:
        """answers: {"program|way": one a prompt}; same: {the same: answers that are plain decoding's of the same
        program}; promised: ways that promise it; notes: by program."""
        ways = [(name, way) for name, peer in self._peers.items() for way in peer.ways]
        warm = replace(self._question(column, 0, part.train[-1]), max_tokens=_WARM_UP_TOKENS)
        for name, way in ways:
            self._peers[name].answer(way, warm)
        self._told(f"{part.task} {label(column)}: {len(part.test)} prompts, {len(ways)} ways")
        found = in_turns(
            ways, part.test,
            lambda way, number, prompt: self._peers[way[0]].answer(way[1], self._question(column, number, prompt)),
        )  # fmt: skip
        drafted = [(name, way) for name, way in ways if way != PLAIN]
        return {
            "task": part.task, "column": column,
            "answers": {"|".join(way): [asdict(replace(one, ids=[])) for one in answers]
                        for way, answers in found.items()},
            "same": {"|".join(way): _same(found[way[0], PLAIN], found[way]) for way in drafted},
            "promised": ["|".join(way) for way in drafted if column == 0 or self._peers[way[0]].exact],
            "notes": {name: peer.notes for name, peer in self._peers.items()},
        }  # fmt: skip

    def _question(self, column: Column, number: int, prompt: Prompt) -> Question:
        messages = list(prompt.messages)
        ids = prompt_ids(self._template, self._vocabulary, messages, [])
        return Question(messages, ids, column, self._plan.seed + number, self._plan.max_tokens)


def _same(plain: Sequence[Answer], found: Sequence[Answer]) -> int:
    return sum(one.ids == other.ids for one, other in zip(plain, found, strict=True))
