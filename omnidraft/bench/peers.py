"""`bench peers`: programs answer the same prompts with the same weights, in turns: ours, and llama.cpp's own server.

A cell is a task with one kind of sampling; speeds are compared within it only. Programs are all loaded at once; those
that are not asked wait without computing. For every kind of sampling they are loaded anew: some copy what they said
before, and would copy their answers to the same prompts.

What is counted is the same for all: the time behind the first round, which ends the reading of the prompt, and the
tokens that came in it.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean
from typing import IO, Any, cast

from omnidraft.app.models_list import choose_target, need_drafter
from omnidraft.backends.gguf.file import read_info
from omnidraft.bench.plans import PEERS, Peers, Work, decides
from omnidraft.decoding.events import Event, Finished, Round, Statistics, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab import statistics as stats
from omnidraft.lab.experiment import PLAIN, Column, Pair, answers, columns, label, name_of, same_ids
from omnidraft.lab.prompts import Prompts, choose
from omnidraft.lab.results import Columns, Report, Table
from omnidraft.lab.statistics import Trace
from omnidraft.processes.threads import physical_cores
from omnidraft.prompting.prompt import prompt_ids
from omnidraft.prompting.prompted_model import Message
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

N_CTX = 1024


@dataclass(frozen=True, slots=True)
class Program:
    """One that is loaded. Close it. ways: names of its ways of answering, PLAIN first; exact: whether they promise
    plain decoding's text, also where that is drawn (greedily all do); rounds: whether its rounds are passes of the
    target, else its statistics tell how many there were."""

    ways: tuple[str, ...]
    answer: Callable[[str, AnswerRequest], Generator[Event, None, None]]
    close: Callable[[], None]
    exact: bool = True
    rounds: bool = True


def ours(home: DataHome, target: Path, drafter: Path, threads: int) -> Program:
    """One loaded pair of ours: plain, only copying, and drafting."""
    pair = Pair(home, target, drafter, ModelSettings(threads=threads, n_ctx=N_CTX))
    return Program((PLAIN, "lookup", "adaptive"), pair.answer, pair.close)


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


@contextmanager
def running(program: Path, arguments: Sequence[str]) -> Iterator[int]:
    """The port of a server that is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # as it comes: how long its threads spin is not our choice
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    command = [str(program), *arguments, "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        try:
            _wait(process, port, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen, port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            printed = log.read().decode("utf-8", "replace").splitlines()[-1:] or ["nothing printed"]
            raise ModelError(f"llama-server ended while it loaded: {printed}.")
        with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise ModelError(f"llama-server was not ready after {START_SECONDS:.0f} seconds.")


def streamed(port: int, asked: dict) -> Iterator[dict]:
    """What a server says to that."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
            connection.request("POST", "/completion", json.dumps(asked), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ModelError(f"llama-server answered {response.status}: {response.read()[:200]!r}.")
            for line in response:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ModelError(f"llama-server broke off: {error}.") from error


def llama_server(program: Path, target: Path, threads: int) -> Program:
    """Its ways are servers of their own, sharing the mapped weights."""
    if not program.is_file():
        raise ModelError(f"llama.cpp's server is not at {program}; docs/measurements.md says how to build it.")
    base = ["-m", str(target), "-t", str(threads), "-c", str(N_CTX), "-np", "1"]
    wanted = {PLAIN: ["--spec-type", "none"]} | COPYING
    vocabulary = read_gguf_vocabulary(target)
    template = ChatTemplate.from_model(read_info(target), vocabulary)
    with ExitStack() as opening:
        ports = {way: opening.enter_context(running(program, [*base, *more])) for way, more in wanted.items()}
        close = opening.pop_all().close

    def answer(way: str, request: AnswerRequest) -> Generator[Event, None, None]:
        return _answered(
            ports[way], prompt_ids(template, vocabulary, cast(list[Message], request.prompt)), request.sampling
        )

    return Program(tuple(wanted), answer, close, exact=False, rounds=False)


def _answered(port: int, ids: list[int], sampling: SamplingSettings) -> Generator[Event, None, None]:
    asked = {
        "prompt": ids, "n_predict": sampling.max_tokens, "stream": True, "return_tokens": True,
        "timings_per_token": True, "cache_prompt": False, "seed": sampling.seed, "repeat_penalty": 1.0,
        "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
        "min_p": sampling.min_p, "samplers": ["top_k", "top_p", "min_p", "temperature"],
    }  # fmt: skip
    came, timings = 0.0, dict[str, Any]()
    for event in streamed(port, asked):
        if event.get("error"):
            raise ModelError(f"llama-server says: {str(event['error'])[:200]}.")
        timings = event.get("timings", {})
        if (said := event.get("tokens")) and not event.get("stop"):
            before, came = came, timings["predicted_ms"] / 1e3
            yield from (Token(one, b"", "", "target", 0) for one in said)
            yield Round(0, 0, 0, 0, len(said), 0.0, 0.0, came - before, 0.0)
    tokens = timings.get("predicted_n", 0)
    passes = tokens - timings.get("draft_n_accepted", 0)
    yield Finished("stop", Statistics(tokens=tokens, target_passes=passes))


# The run.


ENOUGH, LONG = 8, 31  # answers that a cell needs of so many counted tokens
NAMES = {"server": "llama.cpp server", "ours": "omnidraft"}
_WARM_UP_TOKENS = 12
_LATER = ("target", "tasks", "temperature", "peers", "threads", "server")
Opening = Callable[[], Program]


@dataclass(frozen=True, slots=True)
class Answer:
    """tokens, decode: counted ones (above) and their seconds. per_pass: tokens a target pass, None where the program
    does not tell. looped: cut at a loop."""

    tokens: int
    decode: float
    per_pass: float | None
    looped: bool

    @classmethod
    def of(cls, trace: Trace, rounds: bool = True) -> Answer:
        counted, whole = Trace(rounds=trace.rounds[1:]), trace.statistics
        told = (whole.tokens - 1) / (whole.target_passes - 1) if whole.target_passes > 1 else None
        return cls(counted.tokens, counted.decode, stats.per_pass([counted]) if rounds else told, trace.degenerate)

    @classmethod
    def kept(cls, one: Mapping[str, Any]) -> Answer:
        return cls(*(one[name] for name in cls.__slots__))


def run(plan: Peers, work: Work) -> Iterator[Report]:
    """All cells so far."""
    if unknown := [peer for peer in plan.peers if peer not in PEERS]:
        raise SettingsError(f"There is no peer {unknown[0]}; known are {', '.join(PEERS)}.")
    target = choose_target(plan.target, work.home)
    drafter = need_drafter(plan.drafter, work.home, target)
    threads = plan.threads or physical_cores()
    server = Path(plan.server) if plan.server else work.home.cache / "peers" / "llama-server"
    known: dict[str, Opening] = {
        "server": partial(llama_server, server, target, threads),
        "ours": partial(ours, work.home, target, drafter, threads),
    }
    yield from compared(plan, work, (target, drafter), {NAMES[peer]: known[peer] for peer in plan.peers})


def compared(plan: Peers, work: Work, models: Sequence[Path], programs: Mapping[str, Opening]) -> Iterator[Report]:
    """programs: how to load each, which happens only if a cell is missing."""
    prompts, cells = [choose(task, 0, 1, plan.prompts) for task in plan.tasks], list[dict[str, Any]]()
    for column in columns(plan.temperature):
        with ExitStack() as loaded:
            opened = cache(partial(_opened, work, programs, loaded))
            for part in prompts:
                depends = decides(plan, _LATER, *models, peers=list(plan.peers), prompts=part.digest)
                make = partial(_cell, plan, work, opened, column, part)
                cells.append(work.cells.get(f"{part.task}-{name_of(column)}", depends, make))
                yield report(cells, plan)


def _opened(work: Work, programs: Mapping[str, Opening], loaded: ExitStack) -> dict[str, Program]:
    found: dict[str, Program] = {}
    for name, opening in programs.items():
        work.told(f"loading {name}")
        found[name] = loaded.enter_context(closing(opening()))
    return found


def _cell(
    plan: Peers, work: Work, opened: Callable[[], dict[str, Program]], column: Column, part: Prompts
) -> dict[str, Any]:
    """answers: {"program|way": one a prompt}; same: {the same: answers that are plain decoding's of the same program};
    promised: ways that promise it."""
    programs = opened()
    ways = [(name, way) for name, program in programs.items() for way in program.ways]

    def answer(by: tuple[str, str], request: AnswerRequest) -> Generator[Event, None, None]:
        return programs[by[0]].answer(by[1], request)

    answers(answer, ways, part.train[-1:], column, plan.seed, _WARM_UP_TOKENS)
    work.told(f"{part.task} {label(column)}: {len(part.test)} prompts, {len(ways)} ways")
    found = answers(answer, ways, part.test, column, plan.seed, plan.max_tokens)
    drafted = [by for by in ways if by[1] != PLAIN]
    return {
        "task": part.task, "column": column,
        "answers": {"|".join(by): [asdict(Answer.of(one, programs[by[0]].rounds)) for one in said]
                    for by, said in found.items()},
        "same": {"|".join(by): same_ids(found[by[0], PLAIN], found[by]) for by in drafted},
        "promised": ["|".join(by) for by in drafted if column == 0 or programs[by[0]].exact],
    }  # fmt: skip


# Tables over the cells of a run: each way against its own program's plain decoding and against the first program's.


def report(cells: Sequence[dict[str, Any]], plan: Peers) -> Report:
    made = [row for cell in cells for row in rows(cell)]
    over = means(made)
    reference = made[0]["reference"] if made else "none"
    return Report({"plan": asdict(plan), "rows": made, "means": over}, [
        Table.of("Geometric means over the tasks", over, MEANS),
        Table.of(f"By task; the reference is plain decoding of {reference}", made, ROWS),
    ])  # fmt: skip


def rows(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """speedup: median over prompts of plain decoding's time a token over the way's, quartiles behind it; pooled: of
    summed times; against: the median against the reference's plain decoding, the first program's."""
    answers = {key: [*map(Answer.kept, found)] for key, found in cell["answers"].items()}
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
            "tokens_per_second": stats.per_second(behind),
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


_WHO: Columns = {
    "program": lambda row: f"{row['program']}, {row['way']}",
    "sampling": lambda row: label(row["sampling"]),
}
MEANS: Columns = {**_WHO, "against its own plain": "speedup", "against the reference": "against_reference"}
ROWS: Columns = {
    **_WHO,
    "task": "task",
    "tokens/s": "tokens_per_second",
    "against its own plain [quartiles]": lambda row: stats.Value(row["speedup"], *row["quartiles"]),
    "pooled [95%]": "pooled",
    "against the reference": "against",
    "tokens/pass": "tokens_per_pass",
    "answers (long, looped)": lambda row: (
        f"{row['answers']} ({row['long']}, {row['looped']}{'' if row['long'] >= ENOUGH else ', too few'})"
    ),
    "same text": lambda row: (
        None if row["same_text"] is None else f"{row['same_text']}{'' if row['promised'] else ' (not promised)'}"
    ),
}
