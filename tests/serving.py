"""The real app in a child process, on a free port: for tests that ask it over its socket.

`server` and `make_server` are fixtures; a folder's conftest.py imports those its tests ask for.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.prompting.tool_templates import copy_with_template

ROOT = Path(__file__).resolve().parents[1]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.serve"])  # its imports take most of the seconds that an app needs to start
IMPORTED = {"HF_ENDPOINT", "PYTHONPATH", "TMPDIR"}  # read by then: such an app is started from scratch
SETTINGS = "[model]\nthreads = 1\n\n[sampling]\ntemperature = 0.0\nmax_tokens = 48\n"


def _forked(*given: object) -> None:
    from tests import serve

    serve.forked(*given)


class Forked:
    """An app in a process forked from one that has imported everything; used as a `subprocess.Popen` is."""

    def __init__(self, log: Path, lookups: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self._process = FORKS.Process(target=_forked, args=(str(log), str(lookups), arguments, environment))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("app", timeout)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


@dataclass
class Server:
    """The app on a free port. `lookups` are the names it tried to resolve."""

    data: Path
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen | Forked | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lookups(self) -> list[str]:
        return (self.data / "lookups.txt").read_text().splitlines()

    @property
    def log(self) -> str:
        return (self.data / "server.log").read_text()

    def start(self) -> Server:
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        log, lookups = self.data / "server.log", self.data / "lookups.txt"
        arguments = ["--port", str(self.port), "--data-dir", str(self.data / "home"), *self.arguments]
        environment = {"OMP_NUM_THREADS": "1", **self.environment}
        if IMPORTED & environment.keys():
            command = [sys.executable, str(ROOT / "tests/serve.py"), str(lookups), *arguments]
            with log.open("ab") as out:
                whole = {**os.environ, **environment}
                self.process = subprocess.Popen(command, cwd=ROOT, env=whole, stdout=out, stderr=out)
        else:
            self.process = Forked(log, lookups, arguments, environment)
        self._wait()
        return self

    def _wait(self) -> None:
        until = time.monotonic() + 240
        while time.monotonic() < until:
            if (code := self.process.poll()) is not None:
                raise AssertionError(f"the app ended with {code}:\n{self.log}")
            try:
                with urllib.request.urlopen(self.origin, timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"the app did not answer:\n{self.log}")

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, timeout: int = 240
    ) -> tuple[int, dict[str, str], bytes]:
        """One request: status, headers and body of the answer. What is no text is sent as JSON."""
        as_json = body is not None and not isinstance(body, str)
        sent = {**({"Content-Type": "application/json"} if as_json else {}), **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, json.dumps(body) if as_json else body, sent)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_settings(server: Server, text: str, profile: str = "default") -> None:
    """A profile's settings, before the app starts: the tests share their machine, so one thread each."""
    folder = server.data / "home" / "profiles" / profile
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.toml").write_text(text)


@contextmanager
def serving(
    folder: Path, *arguments: str, settings: str = SETTINGS, before: Callable[[Path], None] | None = None,
    **environment: str,
) -> Iterator[Server]:  # fmt: skip
    """An app with its data below `folder`. before: what fills its default profile's folder."""
    server = Server(folder / "app", list(arguments), environment)
    write_settings(server, settings)
    if before is not None:
        before(server.data / "home" / "profiles" / "default")
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator:
    with ExitStack() as running:
        yield lambda *arguments, **more: running.enter_context(serving(tmp_path, *arguments, **more))


def served(*arguments: str, scope: str = "module", **more: Any) -> Callable:
    """A fixture: one app for all tests of a module, or of a session, with these arguments of `serving`."""

    @pytest.fixture(scope=scope)
    def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with serving(tmp_path_factory.mktemp("served"), *arguments, **more) as running:
            yield running

    return made


server = served()


def served_with(templates: Mapping[str, str], prefix: str) -> Callable:
    """A fixture: one app for all tests of a session, with a copy of a bundled model per template: prefix and name."""

    @pytest.fixture(scope="session")
    def made(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Server]:
        folder = tmp_path_factory.mktemp("served")
        home = folder / "app" / "home" / "models"
        home.mkdir(parents=True)
        for name, template in templates.items():
            copy_with_template(models / "tiny-target-a-f16.gguf", home / f"{prefix}{name}.gguf", template)
        with serving(folder) as running:
            yield running

    return made
