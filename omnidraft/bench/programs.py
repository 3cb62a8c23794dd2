"""The programs that `bench peers` compares: ours and llama.cpp's own server, each loaded by the class of its name.

ways: names of its ways of answering, PLAIN first; notes: what it printed or should be known of it; exact: whether its
ways promise plain decoding's text, also where that is drawn (greedily all do). All are asked the same, as messages and
as ids of the target.

An answer is rounds that bring tokens, cut where it begins to loop. What is counted is the same for all: the time behind
the first round, which ends the reading of the prompt, and the tokens that came in it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.bench.pairs import PLAIN, Pair
from omnidraft.decoding.events import Round
from omnidraft.errors import ModelError
from omnidraft.lab.trace import Trace, before_loop
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome


@dataclass(frozen=True, slots=True)
class Models:
    """What every program is given. helper: a drafter of the target's own vocabulary, if there is one."""

    target: Path
    drafter: Path
    threads: int
    n_ctx: int
    helper: Path | None = None


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
        self.notes: list[str] = []
        settings = ModelSettings(threads=models.threads, n_ctx=models.n_ctx)
        self._pair = Pair(home, models.target, models.drafter, settings)

    def answer(self, way: str, messages: Sequence[Message], _ids: Sequence[int], sampling: SamplingSettings) -> Answer:
        return answer_of(self._pair.answer(way, messages, sampling))

    def close(self) -> None:
        self._pair.close()


# llama.cpp's server: a process for each kind of drafting, asked over HTTP and believed about its times. `ngram-simple`
# and `ngram-mod` copy earlier text; `draft-simple` drafts with a model of the target's own vocabulary and refuses any
# other.


COPYING = {  # set for answers as short as a chat's; as they come, for thousands of tokens, they find nothing to copy
    "ngram-simple": [
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "8",
    ],
    "ngram-mod": [
        "--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "2",
        "--spec-ngram-mod-n-max", "8",
    ],
}  # fmt: skip
DRAFTING = "draft-simple"
START_SECONDS = 300.0
_PREFIX = re.compile(r"^[\d.]+ [A-Z] (srv|spec|slot|cmn)?\s*")


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
                raise ModelError(f"llama-server ended while it loaded: {self._printed()[-1:] or ['nothing printed']}.")
            with suppress(OSError), closing(self._connection(5)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise ModelError(f"llama-server was not ready after {START_SECONDS:.0f} seconds.")

    def _connection(self, patience: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)

    def _printed(self) -> list[str]:
        """The lines of its log so far."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").splitlines()

    def complaints(self) -> list[str]:
        """What it printed of drafting that does not work, without times, each once: it goes on without."""
        lines = [_PREFIX.sub("", line).strip() for line in self._printed()]
        words = ("failed to initialize", "not compatible")
        return list(dict.fromkeys(line for line in lines if any(word in line.lower() for word in words)))

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
        if models.helper:
            wanted[DRAFTING] = ["--spec-type", DRAFTING, "-md", str(models.helper), "-td", str(models.threads)]
        base = ["-m", str(models.target), "-t", str(models.threads), "-c", str(models.n_ctx), "-np", "1"]
        with ExitStack() as opening:
            self._servers = {
                way: opening.enter_context(closing(Server(program, [*base, *arguments])))
                for way, arguments in wanted.items()
            }
            self._closing = opening.pop_all()
        self.ways = tuple(wanted)
        self.notes = [f"{way}: {line}" for way, server in self._servers.items() for line in server.complaints()]

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
