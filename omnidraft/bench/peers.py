"""`bench peers`: programs answer the same prompts with the same weights, in turns: ours, and llama.cpp's own server.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.

An answer is rounds that bring tokens, cut where it begins to loop. What is counted is the same for all: the time behind
the first round, which ends the reading of the prompt, and the tokens that came in it.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.bench import runner
from omnidraft.bench.pairs import PLAIN, Pair, Prompts, choose
from omnidraft.bench.runner import PEERS, Column, Peers, Report, Table, Work
from omnidraft.decoding.events import Round
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab import statistics as stats
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.statistics import Trace, before_loop
from omnidraft.processes.threads import physical_cores
from omnidraft.prompting.prompt import prompt_ids
from omnidraft.prompting.prompted_model import Message
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

# A program is loaded by the class of its name. ways: names of its ways of answering, PLAIN first; exact: whether its
# ways promise plain decoding's text, also where that is drawn (greedily all do). All are asked the same, as messages
# and as ids of the target.


N_CTX = 1024


@dataclass(frozen=True, slots=True)
class Models:
    """What every program is given."""

    target: Path
    drafter: Path
    threads: int


@dataclass(frozen=True, slots=True)
class Answer:
    """ids: all that was said. tokens, decode: counted ones (above) and their seconds. per_pass: tokens a target pass,
    None where the program does not tell. looped: cut at a loop."""

    ids: list[int]
    tokens: int
    decode: float
    per_pass: float | None
    looped: bool


def answer_of(trace: Trace) -> Answer:
    """per_pass: as if every round were one target pass."""
    counted = Trace(rounds=trace.rounds[1:])
    per_pass = counted.tokens / len(counted.rounds) if counted.rounds else None
    return Answer(trace.ids, counted.tokens, counted.decode, per_pass, trace.degenerate)


class Ours:
    """One loaded pair of ours: plain, only copying, and drafting."""

    ways: tuple[str, ...] = (PLAIN, "lookup", "adaptive")
    exact = True

    def __init__(self, home: DataHome, models: Models) -> None:
        settings = ModelSettings(threads=models.threads, n_ctx=N_CTX)
        self._pair = Pair(home, models.target, models.drafter, settings)

    def answer(self, way: str, messages: Sequence[Message], _ids: Sequence[int], sampling: SamplingSettings) -> Answer:
        return answer_of(self._pair.answer(way, messages, sampling))

    def close(self) -> None:
        self._pair.close()


# llama.cpp's server: a process for each kind of drafting, asked over HTTP and believed about its times. `ngram-simple`
# and `ngram-mod` copy earlier text.


COPYING = {  # set for answers as short as a chat's; as they come, for thousands of tokens, they find nothing to copy
    "ngram-simple": [
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "8",
    ],
    "ngram-mod": [
        "--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "2",
        "--spec-ngram-mod-n-max", "8",
    ],
}  # fmt: skip
START_SECONDS = 300.0


class Server:
    """One running server. Close it."""

    def __init__(self, program: Path, arguments: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [str(program), *arguments, "--host", "127.0.0.1", "--port", str(self.port)],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            # as it comes: how long its threads spin is not our choice
            env={name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"},
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._log.seek(0)
                printed = self._log.read().decode("utf-8", "replace").splitlines()[-1:] or ["nothing printed"]
                raise ModelError(f"llama-server ended while it loaded: {printed}.")
            with suppress(OSError), closing(self._connection(5)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise ModelError(f"llama-server was not ready after {START_SECONDS:.0f} seconds.")

    def _connection(self, patience: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)

    def events(self, asked: dict) -> Iterator[dict]:
        """What it streams back."""
        try:
            with closing(self._connection(600)) as connection:
                connection.request("POST", "/completion", json.dumps(asked), {"Content-Type": "application/json"})
                response = connection.getresponse()
                if response.status != 200:
                    raise ModelError(f"llama-server answered {response.status}: {response.read()[:200]!r}.")
                for line in response:
                    if line.startswith(b"data: {"):
                        yield json.loads(line[6:])
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ModelError(f"llama-server broke off: {error}.") from error

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class LlamaServer:
    """A program whose ways are servers of their own, sharing the mapped weights."""

    exact = False

    def __init__(self, models: Models, program: Path) -> None:
        if not program.is_file():
            raise ModelError(f"llama.cpp's server is not at {program}; docs/measurements.md says how to build it.")
        wanted = {PLAIN: ["--spec-type", "none"]} | COPYING
        base = ["-m", str(models.target), "-t", str(models.threads), "-c", str(N_CTX), "-np", "1"]
        with ExitStack() as opening:
            self._servers = {
                way: opening.enter_context(closing(Server(program, [*base, *arguments])))
                for way, arguments in wanted.items()
            }
            self._closing = opening.pop_all()
        self.ways = tuple(wanted)

    def answer(self, way: str, _messages: Sequence[Message], ids: Sequence[int], sampling: SamplingSettings) -> Answer:
        asked = {
            "prompt": list(ids), "n_predict": sampling.max_tokens, "stream": True, "return_tokens": True,
            "timings_per_token": True, "cache_prompt": False, "seed": sampling.seed, "repeat_penalty": 1.0,
            "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
            "min_p": sampling.min_p, "samplers": ["top_k", "top_p", "min_p", "temperature"],
        }  # fmt: skip
        trace, came = Trace(), 0.0
        timings: dict[str, Any] = {}
        for event in self._servers[way].events(asked):
            if event.get("error"):
                raise ModelError(f"llama-server says: {str(event['error'])[:200]}.")
            timings = event.get("timings", {})
            if event.get("tokens") and not event.get("stop"):
                before, came = came, timings["predicted_ms"] / 1e3
                trace.ids += event["tokens"]
                trace.rounds.append(Round(0, 0, 0, 0, len(event["tokens"]), 0.0, 0.0, came - before, 0.0))
        said, kept = timings.get("predicted_n", 0), timings.get("draft_n_accepted", 0)
        per_pass = (said - 1) / (said - 1 - kept) if said - 1 > kept else None
        return replace(answer_of(before_loop(trace)), per_pass=per_pass)

    def close(self) -> None:
        self._closing.close()


Program = Ours | LlamaServer


# The run.


ENOUGH, LONG = 8, 31  # answers that a cell needs of so many counted tokens
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
    models = Models(target, drafter, plan.threads or physical_cores())
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
    for column in runner.columns(plan.temperature):
        with ExitStack() as loaded:
            bench = _Bench(plan, work, models, programs, loaded)
            for part in prompts:
                depends = runner.decides(plan, _LATER, *pair, peers=list(plan.peers), prompts=part.digest)
                make = partial(bench.cell, column, part)
                cells.append(work.cells.get(f"{part.task}-{runner.name_of(column)}", depends, make))
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
        program}; promised: ways that promise it."""
        ways = [(name, way) for name, program in self._programs.items() for way in program.ways]
        for name, way in ways:
            self._ask(name, way, part.train[-1], column, 0, _WARM_UP_TOKENS)
        self._told(f"{part.task} {runner.label(column)}: {len(part.test)} prompts, {len(ways)} ways")
        longest = self._plan.max_tokens
        found = runner.in_turns(ways, part.test, lambda way, number, one: self._ask(*way, one, column, number, longest))
        drafted = [(name, way) for name, way in ways if way != PLAIN]
        return {
            "task": part.task, "column": column,
            "answers": {"|".join(way): [asdict(replace(one, ids=[])) for one in answers]
                        for way, answers in found.items()},
            "same": {"|".join(way): runner.same_ids(found[way[0], PLAIN], found[way]) for way in drafted},
            "promised": ["|".join(way) for way in drafted if column == 0 or self._programs[way[0]].exact],
        }  # fmt: skip

    def _ask(self, name: str, way: str, prompt: Prompt, column: Column, number: int, longest: int) -> Answer:
        messages = list(prompt.messages)
        ids = prompt_ids(self._template, self._vocabulary, messages)
        sampling = runner.sampling_of(column, seed=self._plan.seed + number, max_tokens=longest)
        return self._programs[name].answer(way, messages, ids, sampling)


# Tables over the cells of a run: each way against its own program's plain decoding and against the first program's.


def report(cells: Sequence[dict[str, Any]], plan: Peers) -> Report:
    made = [row for cell in cells for row in rows(cell)]
    over = means(made)
    return Report({"plan": asdict(plan), "rows": made, "means": over}, [_means(over), _rows(made)])


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
        [
            [f"{m['program']}, {m['way']}", runner.label(m["sampling"]), m["speedup"], m["against_reference"]]
            for m in found
        ],
    )


def _rows(made: Sequence[dict[str, Any]]) -> Table:
    return Table(
        f"By task; the reference is plain decoding of {made[0]['reference'] if made else 'none'}",
        ["program", "sampling", "task", "tokens/s", "against its own plain [quartiles]", "pooled [95%]",
         "against the reference", "tokens/pass", "answers (long, looped)", "same text"],
        [[f"{r['program']}, {r['way']}", runner.label(r["sampling"]), r["task"], r["tokens_per_second"],
          stats.Value(r["speedup"], *r["quartiles"]), r["pooled"], r["against"], r["tokens_per_pass"],
          f"{r['answers']} ({r['long']}, {r['looped']}{'' if r['long'] >= ENOUGH else ', too few'})",
          None if r["same_text"] is None else f"{r['same_text']}{'' if r['promised'] else ' (not promised)'}"]
         for r in made],
    )  # fmt: skip
