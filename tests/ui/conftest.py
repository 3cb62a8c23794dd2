"""A real browser that reports every request leaving the app's own origin, for tests of the pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.serving import ROOT, SETTINGS, Server, free_port, make_server, server, write_settings

__all__ = ["ROOT", "SETTINGS", "Server", "free_port", "make_server", "server", "write_settings"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser on a busy machine may miss a moment: its tests get a second try, which the report names."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A second try has an app of its own, for the first may have left anything in its module's."""
    if getattr(item, "execution_count", 1) > 1:
        for *_, fixture in item._fixtureinfo.name2fixturedefs.values():
            if fixture.scope == "module":
                fixture.finish(item._request)


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


@pytest.fixture(scope="session")
def view():
    """The components of the chat page that events change; they keep nothing."""
    import gradio as gr

    from ui.chat.page import Page

    with gr.Blocks():
        return Page().view


class Pages:
    """Opens pages and remembers what they asked of other origins and what went wrong in them."""

    def __init__(self, browser) -> None:
        self.browser = browser
        self.foreign: list[str] = []
        self.servers: list[Server] = []
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
        page = self.empty(server, context or self.context(server, width=width, height=height, scheme=scheme))
        page.goto(server.origin + path)
        page.wait_for_selector("#od-head nav", state="attached")
        return page

    def context(
        self, server: Server, *, width: int = 1440, height: int = 900, scheme: str = "light", touch: bool = False
    ):
        """A browser of its own."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=touch
        )
        context.on("requestfinished", lambda request: self._note(server, request.url))
        context.on("requestfailed", lambda request: self._failed(server, request))
        self.contexts.append(context)
        return context

    def empty(self, server: Server, context):
        """A tab that shows nothing yet."""
        self.servers.append(server)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", self._threw)
        page.on("console", self._said)
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


def watched(browser) -> Iterator[Pages]:
    """Every browser test ends with the check that nothing left the app's own origin, that its server looked no name up,
    and that no script failed."""
    opened = Pages(browser)
    yield opened
    for context in opened.contexts:
        context.close()
    assert opened.foreign == []
    assert [name for server in opened.servers for name in server.lookups] == []
    assert opened.errors == []


pages = pytest.fixture(watched)
kept_pages = pytest.fixture(scope="module")(watched)  # drawing a page takes three seconds of a processor


def kept_page(server: str, path: str = "/") -> Callable:
    """A fixture: one page for all tests of a module, of the app that the fixture of this name serves. They begin with a
    conversation of their own. It is closed before its server is, whose end would fail its streams."""

    @pytest.fixture(scope="module")
    def made(request: pytest.FixtureRequest, kept_pages: Pages):
        page = kept_pages.open(request.getfixturevalue(server), path)
        yield page
        page.context.close()

    return made
