"""`bench peers`: programs answer the same prompts with the same weights, in turns, and one that fails is reported.

Cells (sampling, task) are kept in a file each, so that an interrupted run goes on where it stopped. Speeds are compared
within a cell only. Programs are all loaded at once; those that are not asked wait without computing. For every kind of
sampling they are loaded anew: some copy what they said before, and would copy their answers to the same prompts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench.columns import Column, name_of
from omnidraft.bench.learn_plan import label
from omnidraft.bench.peers.bursts import Answer
from omnidraft.bench.peers.peer import PLAIN, Models, Opening, Peer, Question
from omnidraft.bench.peers.plan import Plan, digest
from omnidraft.errors import OmniDraftError, SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.storage.files import write_atomically
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

Told = Callable[[str], None]
_WARM_UP_TOKENS = 12


@dataclass(slots=True)
class Cell:
    """One task with one sampling. answers: {"peer way": one a prompt}; same: {"peer way": answers that are plain
    decoding's of the same program}; promised: ways that promise it."""

    task: str
    column: Column
    digest: str
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    same: dict[str, int] = field(default_factory=dict)
    promised: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """cells so far; failed: {peer: what it said}; notes: {peer: what is worth knowing}."""

    cells: list[Cell] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


def run(plan: Plan, folder: Path, openings: Callable[[], tuple[Models, Mapping[str, Opening]]], told: Told
        ) -> Iterator[Found]:  # fmt: skip
    """What is found, whenever a cell is finished. openings: the models and how to load each program, asked for only
    if a cell is missing."""
    _same_plan(plan, folder)
    found = Found(**_loaded(folder / "programs.json"))
    forms: list[tuple[Models, Mapping[str, Opening]]] = []
    for column in plan.columns:
        missing = [task for task in plan.tasks if not _path(folder, column, task).exists()]
        with ExitStack() as closing:
            if missing:
                forms = forms or [openings()]
                bench = _Bench(plan, *forms[0], told, closing)
            for task in plan.tasks:
                path, prompts = _path(folder, column, task), plan.test(task)
                if task in missing:
                    cell = bench.cell(column, task, prompts, len(missing))
                    found.failed |= bench.failed
                    found.notes |= bench.notes
                    _write(folder / "programs.json", {"failed": found.failed, "notes": found.notes})
                    _write(path, asdict(cell))
                found.cells.append(_cell(path, digest(prompts)))
                yield found


class _Bench:
    """The loaded programs."""

    def __init__(
        self, plan: Plan, models: Models, openings: Mapping[str, Opening], told: Told, closing: ExitStack
    ) -> None:
        self._plan, self._told = plan, told
        self.failed: dict[str, str] = {}
        self.notes: dict[str, list[str]] = {}
        self._peers: dict[str, Peer] = {}
        for name, opening in openings.items():
            told(f"loading {name}")
            try:
                self._peers[name] = peer = opening()
            except Exception as error:  # another program may fail in any way; the rest goes on
                self._fail(name, error)
                continue
            closing.callback(peer.close)
            self.notes[name] = peer.notes
        if not self._peers:
            raise SettingsError("None of the programs could be loaded: " + "; ".join(self.failed.values()))
        self._vocabulary = read_gguf_vocabulary(models.target)
        self._template = ChatTemplate.from_model(read_info(models.target), self._vocabulary)
        self._warm = False

    def cell(self, column: Column, task: str, prompts: Sequence[Prompt], cells: int) -> Cell:
        """Every prompt once with every way of every program, in turning order."""
        cell = Cell(label(task), column, digest(prompts))
        self._warm_up(column, self._plan.aside(task), cells)
        ids: dict[str, list[int]] = {}
        for number, prompt in enumerate(prompts):
            self._told(f"{cell.task} {name_of(column)}: prompt {number + 1} of {len(prompts)}")
            question = self._question(prompt, column, number)
            ways = [(name, way) for name, peer in self._peers.items() for way in peer.ways]
            turn = number % max(len(ways), 1)
            for name, way in ways[turn:] + ways[:turn]:
                answer = self._ask(name, way, question)
                if answer is not None:
                    cell.answers.setdefault(f"{name}|{way}", []).append(replace(answer, ids=[]))
                    ids[f"{name}|{way}"] = answer.ids
            self._compare(cell, ids, column)
        whole = {key: found for key, found in cell.answers.items() if len(found) == len(prompts)}
        cell.answers, cell.same = whole, {key: count for key, count in cell.same.items() if key in whole}
        return cell

    def _compare(self, cell: Cell, ids: Mapping[str, list[int]], column: Column) -> None:
        for name, peer in self._peers.items():
            for way in peer.ways:
                key, plain = f"{name}|{way}", ids.get(f"{name}|{PLAIN}")
                if way == PLAIN or plain is None or key not in ids:
                    continue
                cell.same[key] = cell.same.get(key, 0) + (ids[key] == plain)
                if peer.keeps_text(way, column) and key not in cell.promised:
                    cell.promised.append(key)

    def _warm_up(self, column: Column, prompt: Prompt, cells: int) -> None:
        """A few tokens by every way, which also tell how long the rest with this sampling will take."""
        if self._warm:
            return
        self._warm, seconds = True, 0.0
        question = replace(self._question(prompt, column, 0), max_tokens=_WARM_UP_TOKENS)
        for name, peer in list(self._peers.items()):
            for way in peer.ways:
                answer = self._ask(name, way, question)
                seconds += (answer.per_token or 0.0) if answer else 0.0
        longest = seconds * self._plan.max_tokens * self._plan.prompts * cells
        self._told(f"{name_of(column)}: at most about {longest / 60:.1f} minutes for {cells} tasks")

    def _question(self, prompt: Prompt, column: Column, number: int) -> Question:
        ids = prompt_ids(self._template, self._vocabulary, list(prompt.messages), [])
        return Question(list(prompt.messages), ids, column, self._plan.seed + number, self._plan.max_tokens)

    def _ask(self, name: str, way: str, question: Question) -> Answer | None:
        if name not in self._peers:
            return None
        try:
            return self._peers[name].answer(way, question)
        except Exception as error:  # as above
            self._fail(name, error)
            return None

    def _fail(self, name: str, error: Exception) -> None:
        said = str(error).strip() or type(error).__name__
        self.failed[name] = said if isinstance(error, OmniDraftError) else f"{type(error).__name__}: {said[:400]}"
        self._told(f"{name} failed: {self.failed[name]}")
        self._peers.pop(name, None)


def _path(folder: Path, column: Column, task: str) -> Path:
    return folder / f"{label(task)}-{name_of(column)}.json"


def _cell(path: Path, prompts: str) -> Cell:
    values = json.loads(path.read_bytes())
    if values["digest"] != prompts:
        raise SettingsError(f"{path} was made with other prompts; name another --out file.")
    values["answers"] = {key: [Answer(**one) for one in found] for key, found in values["answers"].items()}
    return Cell(**values)


def _loaded(path: Path) -> dict:
    return json.loads(path.read_bytes()) if path.exists() else {}


def _write(path: Path, values: dict) -> None:
    write_atomically(path, json.dumps(values).encode())


def _same_plan(plan: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path, asked = folder / "plan.json", plan.decides()
    before = _loaded(path) or asked
    if differ := [name for name in asked if before.get(name) != asked[name]]:
        raise SettingsError(f"{folder} holds a run with other {', '.join(differ)}; name another --out file.")
    _write(path, asked)
