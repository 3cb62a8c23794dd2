"""`bench peers`: programs answer the same prompts with the same weights, in turns.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench import runner
from omnidraft.bench.peers.llama_server import LlamaServer
from omnidraft.bench.peers.peer import PLAIN, Answer, Models, Opening, Ours, Peer, Question
from omnidraft.bench.questions import Prompts, choose
from omnidraft.bench.report import Column, Report, Table, columns, label, name_of
from omnidraft.bench.runner import Peers, Told, Work, decides, in_turns
from omnidraft.errors import SettingsError
from omnidraft.lab import statistics as stats
from omnidraft.lab.prompts import Prompt
from omnidraft.processes.threads import physical_cores
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

# Tables over the cells of a peers' run: each way against its own program's plain decoding and against llama.cpp's.


ENOUGH, LONG = 8, 31  # answers that a cell needs of so many counted tokens


@dataclass(frozen=True, slots=True)
class Row:
    """speedup: median over prompts of plain decoding's time a token over the way's, quartiles behind it; pooled: of
    summed times; against: the median against the reference's plain decoding, the first program's."""

    task: str
    sampling: Column
    program: str
    way: str
    tokens_per_second: float
    speedup: float
    quartiles: tuple[float, float]
    pooled: stats.Value
    reference: str
    against: float
    tokens_per_pass: float | None
    answers: int
    long: int
    looped: int
    same_text: int | None
    promised: bool


def report(cells: Sequence[dict[str, Any]], plan: Peers) -> Report:
    made = [row for cell in cells for row in rows(cell)]
    over = means(made)
    notes = {name: said for cell in cells for name, said in cell["notes"].items()}
    values = {"plan": asdict(plan), "rows": made, "means": over, "notes": notes}
    said = [f"{name}: {note}" for name, lines in notes.items() for note in lines]
    return Report(values, [_means(over), _rows(made)], said)


def rows(cell: dict[str, Any]) -> Iterator[Row]:
    answers = {key: [Answer(**one) for one in found] for key, found in cell["answers"].items()}
    reference = next(iter(answers)).split("|")[0]
    for key, found in answers.items():
        name, way = key.split("|")
        plain = answers[f"{name}|{PLAIN}"]
        pairs = [(p, a) for p, a in zip(plain, found, strict=False) if p.tokens and a.tokens and a.decode and p.decode]
        if not pairs:
            continue
        before, behind = [p for p, _ in pairs], [a for _, a in pairs]
        ratios, passes = stats.each(before, behind), [a.per_pass for a in behind if a.per_pass is not None]
        held = stats.each(answers[f"{reference}|{PLAIN}"], found)
        yield Row(
            cell["task"], cell["column"], name, way,
            tokens_per_second=sum(a.tokens for a in behind) / sum(a.decode for a in behind),
            speedup=stats.median(ratios).mean, quartiles=stats.quartiles(ratios),
            pooled=stats.speedup(before, behind), reference=reference,
            against=stats.median(held).mean,
            tokens_per_pass=sum(passes) / len(passes) if passes else None,
            answers=len(found), long=sum(a.tokens >= LONG for a in found), looped=sum(a.looped for a in found),
            same_text=cell["same"].get(key), promised=key in cell["promised"],
        )  # fmt: skip


def means(made: Sequence[Row]) -> list[dict[str, Any]]:
    """Over the tasks, for each sampling and way: the geometric mean of the median speedups."""
    found = []
    for sampling, name, way in dict.fromkeys((r.sampling, r.program, r.way) for r in made if r.way != PLAIN):
        mine = [r for r in made if (r.sampling, r.program, r.way) == (sampling, name, way)]
        found.append({
            "sampling": sampling, "program": name, "way": way, "tasks": len(mine),
            "speedup": stats.geometric([r.speedup for r in mine]),
            "against_reference": stats.geometric([r.against for r in mine]),
        })  # fmt: skip
    return found


def _means(found: Sequence[dict]) -> Table:
    return Table(
        "Geometric means over the tasks",
        ["program", "sampling", "against its own plain", "against the reference"],
        [[f"{m['program']}, {m['way']}", label(m["sampling"]), m["speedup"], m["against_reference"]] for m in found],
    )


def _rows(made: Sequence[Row]) -> Table:
    return Table(
        f"By task; the reference is plain decoding of {made[0].reference if made else 'none'}",
        ["program", "sampling", "task", "tokens/s", "against its own plain [quartiles]", "pooled [95%]",
         "against the reference", "tokens/pass", "answers (long, looped)", "same text"],
        [[f"{r.program}, {r.way}", label(r.sampling), r.task, r.tokens_per_second,
          stats.Value(r.speedup, *r.quartiles), r.pooled, r.against, r.tokens_per_pass,
          f"{r.answers} ({r.long}, {r.looped}{'' if r.long >= ENOUGH else ', too few'})",
          _same_texts(r)] for r in made],
    )  # fmt: skip


def _same_texts(row: Row) -> str | None:
    return None if row.same_text is None else f"{row.same_text}{'' if row.promised else ' (not promised)'}"


_WARM_UP_TOKENS = 12
N_CTX = 1024
PROGRAMS = {"server": "llama.cpp server", "ours": "omnidraft"}
_LATER = ("target", "tasks", "temperature", "peers", "threads", "server")


def run(plan: runner.Peers, work: Work) -> Iterator[Report]:
    """All cells so far."""
    if unknown := [peer for peer in plan.peers if peer not in runner.PEERS]:
        raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(runner.PEERS)}.")
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


def compared(plan: runner.Peers, work: Work, models: Models, programs: Mapping[str, Opening]) -> Iterator[Report]:
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
        self, plan: runner.Peers, told: Told, models: Models, programs: Mapping[str, Opening], closing: ExitStack
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
