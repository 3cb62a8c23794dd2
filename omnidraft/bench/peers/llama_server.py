"""llama.cpp's own server, a process for each kind of drafting, asked over HTTP and believed about its times.

`ngram-simple` and `ngram-mod` copy earlier text; `draft-simple` drafts with a model of the target's own vocabulary and
refuses any other.
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
from pathlib import Path

from omnidraft.bench.peers.peer import PLAIN, Answer, Burst, Models, Question, answer_of
from omnidraft.errors import ModelError

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
        self.port = _free_port()
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
                raise ModelError(f"llama-server ended while it loaded: {self.printed()[-1:] or ['nothing printed']}.")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.1)
        raise ModelError(f"llama-server was not ready after {START_SECONDS:.0f} seconds.")

    def printed(self) -> list[str]:
        """The lines of its log so far."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").splitlines()

    def complaints(self, *words: str) -> list[str]:
        """What it printed with one of these in it, without times, each once."""
        lines = [_PREFIX.sub("", line).strip() for line in self.printed()]
        return list(dict.fromkeys(line for line in lines if any(word in line.lower() for word in words)))

    def events(self, asked: dict) -> Iterator[dict]:
        """What it streams back."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request("POST", "/completion", json.dumps(asked), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ModelError(f"llama-server answered {response.status}: {response.read()[:200]!r}.")
            for line in response:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ModelError(f"llama-server broke off: {error}.") from error
        finally:
            connection.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class LlamaServer:
    """A peer whose ways are servers of their own, sharing the mapped weights."""

    exact = False

    def __init__(self, models: Models, program: Path) -> None:
        if not program.is_file():
            raise ModelError(f"llama.cpp's server is not at {program}; docs/measurements.md says how to build it.")
        self.notes: list[str] = []
        self._servers: dict[str, Server] = {}
        wanted = {PLAIN: ["--spec-type", "none"]} | COPYING
        if models.helper:
            wanted[DRAFTING] = ["--spec-type", DRAFTING, "-md", str(models.helper), "-td", str(models.threads)]
        base = ["-m", str(models.target), "-t", str(models.threads), "-c", str(models.n_ctx), "-np", "1"]
        try:
            for way, arguments in wanted.items():
                self._servers[way] = Server(program, [*base, *arguments])
        except BaseException:
            self.close()
            raise
        self.ways = tuple(wanted)
        for way, server in self._servers.items():  # it goes on without drafting then
            self.notes += [f"{way}: {line}" for line in server.complaints("failed to initialize", "not compatible")]

    def answer(self, way: str, question: Question) -> Answer:
        sampling = question.sampling
        asked = {
            "prompt": list(question.prompt), "n_predict": question.max_tokens, "stream": True, "return_tokens": True,
            "timings_per_token": True, "cache_prompt": False, "seed": question.seed, "repeat_penalty": 1.0,
            "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
            "min_p": sampling.min_p, "samplers": ["top_k", "top_p", "min_p", "temperature"],
        }  # fmt: skip
        events = list(self._servers[way].events(asked))
        found = answer_of(_bursts(events), passes_are_bursts=False)
        timings = events[-1].get("timings", {}) if events else {}
        said, kept = timings.get("predicted_n", 0), timings.get("draft_n_accepted", 0)
        per_pass = (said - 1) / (said - 1 - kept) if said - 1 > kept else None
        return Answer(found.ids, found.tokens, found.decode, per_pass, found.looped)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()


def _bursts(events: Sequence[dict]) -> Iterator[Burst]:
    for event in events:
        if event.get("error"):
            raise ModelError(f"llama-server says: {str(event['error'])[:200]}.")
        if event.get("tokens") and not event.get("stop"):
            yield Burst(tuple(event["tokens"]), event["timings"]["predicted_ms"] / 1e3)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
