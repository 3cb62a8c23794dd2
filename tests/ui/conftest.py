"""The real app in a child process, and a real browser that reports every request leaving the app's own origin."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser on a busy machine may miss a moment: its tests get a second try, which the report names."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2))


ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Server:
    """The app on a free port. `lookups` are the names it tried to resolve."""

    data: Path
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen | None = None

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
        command = [
            sys.executable,
            str(ROOT / "tests/ui/serve.py"),
            str(self.data / "lookups.txt"),
            "--port",
            str(self.port),
            "--data-dir",
            str(self.data / "home"),
            *self.arguments,
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **self.environment}
        with (self.data / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self._wait()
        return self

    def _wait(self) -> None:
        until = time.monotonic() + 240
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"the app ended with {self.process.returncode}:\n{self.log}")
            try:
                with urllib.request.urlopen(self.origin, timeout=5):
                    return
            except urllib.error.HTTPError:
                return  # it answers, if only to say that one must sign in
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"the app did not answer:\n{self.log}")

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


SETTINGS = "[model]\nthreads = 1\n\n[sampling]\ntemperature = 0.0\nmax_tokens = 48\n"


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator:
    made: list[Server] = []

    def make(*arguments: str, settings: str = SETTINGS, name: str = "app", **environment: str) -> Server:
        server = Server(tmp_path / name, list(arguments), environment)
        write_settings(server, settings)
        made.append(server)
        return server.start()

    yield make
    for server in made:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One app for all tests of a module."""
    made = Server(tmp_path_factory.mktemp("ui") / "app")
    write_settings(made, SETTINGS)
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: set CHROMIUM to its path or install it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


EXPECTED = (
    "Content Security Policy", "Failed to load resource: net::", "ERR_CONNECTION_REFUSED",
    "AbortError", "Connection errored out",  # of requests that end with their page
)  # fmt: skip


class Pages:
    """Opens pages and remembers what they asked of other origins and what went wrong in them."""

    def __init__(self, browser) -> None:
        self.browser = browser
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.contexts: list = []

    def open(
        self,
        server: Server,
        path: str = "/",
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        context=None,
    ):
        if context is None:
            context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            context.on("requestfinished", lambda request: self._note(server, request.url))
            context.on("requestfailed", lambda request: self._failed(server, request))
            self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", self._threw)
        page.on("console", self._said)
        page.goto(server.origin + path)
        page.wait_for_selector("#od-head nav", state="attached")
        return page

    def _threw(self, error) -> None:
        """What a script threw, but for the requests that Gradio ends when a page is left."""
        if "AbortError" not in str(error):
            self.errors.append(str(error))

    def _said(self, message) -> None:
        """Errors on the console, but for what was refused on purpose, for a server that was stopped or a page that
        was left, and for Gradio's own answer to the cancelling of an event that is just over."""
        where = message.location.get("url") or ""
        known = any(part in message.text for part in EXPECTED) or where.endswith("/gradio_api/cancel")
        if message.type == "error" and not known:
            self.errors.append(f"{message.text} ({where})")

    def _failed(self, server: Server, request) -> None:
        """What the content policy refused never left the browser; anything else that failed may have tried."""
        if (request.failure or "") not in ("csp", "net::ERR_BLOCKED_BY_CSP"):
            self._note(server, request.url)

    def _note(self, server: Server, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != urlsplit(server.origin).netloc:
            self.foreign.append(url)


@pytest.fixture
def pages(browser) -> Iterator[Pages]:
    """Every browser test ends with the check that nothing left the app's own origin and no script failed."""
    opened = Pages(browser)
    yield opened
    for context in opened.contexts:
        context.close()
    assert opened.foreign == []
    assert opened.errors == []
