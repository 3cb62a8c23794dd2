"""`bench peers`: programs answer the same prompts with the same weights, in turns.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench.pairs import PLAIN
from omnidraft.bench.programs import Answer, LlamaServer, Models, Ours, Program
from omnidraft.bench.questions import Prompts, choose
from omnidraft.bench.report import Column, Report, Table, columns, label, name_of, sampling_of
from omnidraft.bench.runner import PEERS, Peers, Work, decides, in_turns, same_ids
from omnidraft.errors import SettingsError
from omnidraft.lab import statistics as stats
from omnidraft.lab.prompts import Prompt
from omnidraft.processes.threads import physical_cores
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

ENOUGH, LONG = 8, 31  # answers that a cell needs of so many counted tokens
N_CTX = 1024
NAMES = {"server": "llama.cpp server", "ours": "omnidraft"}
_WARM_UP_TOKENS = 12
_LATER = ("target", "tasks", "temperature", "peers", "threads", "server")
Opening = Callable[[], Program]


def run(plan: Peers, work: Work) -> Iterator[Report]:
    """All cells so far."""
    if unknown := [peer for peer in plan.peers if peer not in PEERS]:
        raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(PEERS)}.")
    target = choose_target(plan.target, work.home)
    drafter = need_drafter(plan.drafter, work.home, target)
    helper = None if plan.helper == "none" else choose_target(plan.helper, work.home)
    models = Models(target, drafter, plan.threads or physical_cores(), N_CTX, helper)
    server = Path(plan.server) if plan.server else work.home.cache / "peers" / "llama-server"
    known: dict[str, Opening] = {
        "server": partial(LlamaServer, models, server),
        "ours": partial(Ours, work.home, models),
    }
    yield from compared(plan, work, models, {NAMES[peer]: known[peer] for peer in plan.peers})


def compared(plan: Peers, work: Work, models: Models, programs: Mapping[str, Opening]) -> Iterator[Report]:
    """programs: how to load each, which happens only if a cell is missing."""
    prompts, pair = [choose(task, 0, 1, plan.prompts) for task in plan.tasks], (models.target, models.drafter)
    cells: list[dict[str, Any]] = []
    for column in columns(plan.temperature):
        with ExitStack() as loaded:
            bench = _Bench(plan, work, models, programs, loaded)
            for part in prompts:
                depends = decides(plan, _LATER, *pair, peers=list(plan.peers), prompts=part.digest)
                make = partial(bench.cell, column, part)
                cells.append(work.cells.get(f"{part.task}-{name_of(column)}", depends, make))
                yield report(cells, plan)


class _Bench:
    """The programs, loaded when the first cell is missing."""

    def __init__(
        self, plan: Peers, work: Work, models: Models, programs: Mapping[str, Opening], loaded: ExitStack
    ) -> None:
        self._plan, self._told, self._models, self._opening, self._loaded = plan, work.told, models, programs, loaded

    @cached_property
    def _programs(self) -> dict[str, Program]:
        self._vocabulary = read_gguf_vocabulary(self._models.target)
        self._template = ChatTemplate.from_model(read_info(self._models.target), self._vocabulary)
        found: dict[str, Program] = {}
        for name, opening in self._opening.items():
            self._told(f"loading {name}")
            found[name] = self._loaded.enter_context(closing(opening()))
        return found

    def cell(self, column: Column, part: Prompts) -> dict[str, Any]:
        """answers: {"program|way": one a prompt}; same: {the same: answers that are plain decoding's of the same
        program}; promised: ways that promise it; notes: by program."""
        ways = [(name, way) for name, program in self._programs.items() for way in program.ways]
        for name, way in ways:
            self._ask(name, way, part.train[-1], column, 0, _WARM_UP_TOKENS)
        self._told(f"{part.task} {label(column)}: {len(part.test)} prompts, {len(ways)} ways")
        longest = self._plan.max_tokens
        found = in_turns(ways, part.test, lambda way, number, one: self._ask(*way, one, column, number, longest))
        drafted = [(name, way) for name, way in ways if way != PLAIN]
        return {
            "task": part.task, "column": column,
            "answers": {"|".join(way): [asdict(replace(one, ids=[])) for one in answers]
                        for way, answers in found.items()},
            "same": {"|".join(way): same_ids(found[way[0], PLAIN], found[way]) for way in drafted},
            "promised": ["|".join(way) for way in drafted if column == 0 or self._programs[way[0]].exact],
            "notes": {name: program.notes for name, program in self._programs.items()},
        }  # fmt: skip

    def _ask(self, name: str, way: str, prompt: Prompt, column: Column, number: int, longest: int) -> Answer:
        messages = list(prompt.messages)
        ids = prompt_ids(self._template, self._vocabulary, messages, [])
        sampling = sampling_of(column, seed=self._plan.seed + number, max_tokens=longest)
        return self._programs[name].answer(way, messages, ids, sampling)


# Tables over the cells of a run: each way against its own program's plain decoding and against the first program's.


def report(cells: Sequence[dict[str, Any]], plan: Peers) -> Report:
    made = [row for cell in cells for row in rows(cell)]
    over = means(made)
    notes = {name: said for cell in cells for name, said in cell["notes"].items()}
    values = {"plan": asdict(plan), "rows": made, "means": over, "notes": notes}
    said = [f"{name}: {note}" for name, lines in notes.items() for note in lines]
    return Report(values, [_means(over), _rows(made)], said)


def rows(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """speedup: median over prompts of plain decoding's time a token over the way's, quartiles behind it; pooled: of
    summed times; against: the median against the reference's plain decoding, the first program's."""
    answers = {key: [Answer(**one) for one in found] for key, found in cell["answers"].items()}
    reference = next(iter(answers)).split("|")[0]
    for key, found in answers.items():
        name, way = key.split("|")
        both = zip(answers[f"{name}|{PLAIN}"], found, strict=True)
        pairs = [(p, a) for p, a in both if p.tokens and a.tokens and a.decode and p.decode]
        if not pairs:
            continue
        before, behind = [p for p, _ in pairs], [a for _, a in pairs]
        ratios, passes = stats.each(before, behind), [a.per_pass for a in behind if a.per_pass is not None]
        yield {
            "task": cell["task"], "sampling": cell["column"], "program": name, "way": way,
            "tokens_per_second": sum(a.tokens for a in behind) / sum(a.decode for a in behind),
            "speedup": stats.median(ratios).mean, "quartiles": stats.quartiles(ratios),
            "pooled": stats.speedup(before, behind), "reference": reference,
            "against": stats.median(stats.each(answers[f"{reference}|{PLAIN}"], found)).mean,
            "tokens_per_pass": sum(passes) / len(passes) if passes else None,
            "answers": len(found), "long": sum(a.tokens >= LONG for a in found),
            "looped": sum(a.looped for a in found), "same_text": cell["same"].get(key),
            "promised": key in cell["promised"],
        }  # fmt: skip


def means(made: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over the tasks, for each sampling and way: the geometric mean of the median speedups."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in made:
        if row["way"] != PLAIN:
            groups.setdefault((row["sampling"], row["program"], row["way"]), []).append(row)
    return [
        {"sampling": sampling, "program": name, "way": way, "tasks": len(mine),
         "speedup": geometric_mean(row["speedup"] for row in mine),
         "against_reference": geometric_mean(row["against"] for row in mine)}
        for (sampling, name, way), mine in groups.items()
    ]  # fmt: skip


def _means(found: Sequence[dict[str, Any]]) -> Table:
    return Table(
        "Geometric means over the tasks",
        ["program", "sampling", "against its own plain", "against the reference"],
        [[f"{m['program']}, {m['way']}", label(m["sampling"]), m["speedup"], m["against_reference"]] for m in found],
    )


def _rows(made: Sequence[dict[str, Any]]) -> Table:
    return Table(
        f"By task; the reference is plain decoding of {made[0]['reference'] if made else 'none'}",
        ["program", "sampling", "task", "tokens/s", "against its own plain [quartiles]", "pooled [95%]",
         "against the reference", "tokens/pass", "answers (long, looped)", "same text"],
        [[f"{r['program']}, {r['way']}", label(r["sampling"]), r["task"], r["tokens_per_second"],
          stats.Value(r["speedup"], *r["quartiles"]), r["pooled"], r["against"], r["tokens_per_pass"],
          f"{r['answers']} ({r['long']}, {r['looped']}{'' if r['long'] >= ENOUGH else ', too few'})",
          None if r["same_text"] is None else f"{r['same_text']}{'' if r['promised'] else ' (not promised)'}"]
         for r in made],
    )  # fmt: skip
