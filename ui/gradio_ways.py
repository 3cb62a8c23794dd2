"""Where these pages go around Gradio, each with its reason: the one file to go through when its version changes.

Only what is done to Gradio itself stands here, looked at with `VERSION` last; what is drawn otherwise than Gradio draws
it stands in `static`, where the word Gradio is. Knows nothing of what pages show.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VERSION = "6.31.0"

# Read when it is imported and when blocks are made: nothing may call home, nothing may be recorded.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_RUN_HISTORY"] = "False"
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")

# It takes `mcp` in where that is installed, to be such a server, which these pages are not: 0.7 s of every start.
_is_there = "mcp" in sys.modules
if not _is_there:
    sys.modules["mcp"] = None  # type: ignore[assignment]
import gradio as gr  # noqa: E402

if not _is_there:
    del sys.modules["mcp"]

from fastapi import FastAPI, HTTPException, Request  # noqa: E402
from fastapi.exception_handlers import http_exception_handler  # noqa: E402
from fastapi.responses import HTMLResponse, PlainTextResponse, Response  # noqa: E402
from gradio.routes import App  # noqa: E402
from starlette.datastructures import Headers, MutableHeaders  # noqa: E402
from starlette.types import Message, Send  # noqa: E402

from omnidraft.server.guard.security import refuse_fetching  # noqa: E402
from omnidraft.storage.files import reason  # noqa: E402

# Events. None is a public API endpoint, and none covers what it changes with a spinner, for which each output would be
# drawn anew, before the event and behind it.
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "show_progress_on": []}
# Gradio passes over what happens while the same event is being handled. Values that change again: the newest is handled
# behind it, without what its event carried. Clicks on rows carry which row it was: each is handled at once.
LAST: dict[str, Any] = {**PRIVATE, "trigger_mode": "always_last"}
EACH: dict[str, Any] = {**PRIVATE, "trigger_mode": "multiple"}


def data_of(event: gr.EventData) -> dict[str, Any]:
    """What a script triggered an event with; Gradio tells single names of it, and fails for one that is missing."""
    return event._data


@contextlib.contextmanager
def applications_later() -> Iterator[None]:
    """By itself Gradio makes an application at the end of every page, none of them ever asked: half the time of a
    start."""
    create = App.create_app
    App.create_app = staticmethod(lambda *_, **__: None)
    try:
        yield
    finally:
        App.create_app = staticmethod(create)


LOOK_SECONDS = 0.02  # between looks of Gradio's queue at whether an event waits: what a click may wait for
MAX_UPLOAD = "64mb"  # an export brings its pictures along


def mounted(app: FastAPI, build: Callable[[], gr.Blocks], uploads: Path, **look: Any) -> FastAPI:
    """`app` with the pages that `build` makes, whose files go to `uploads`. Gradio's own `launch` is not used: an
    application of ours decides what else is served, and makes no request of its own at the start. look: of
    `gr.mount_gradio_app`."""
    os.environ["GRADIO_TEMP_DIR"] = str(uploads)  # read when blocks and routes are made
    refuse_fetching()
    blocks = build()
    # Until it was launched, Gradio takes any path of this machine for an uploaded file. Mounting does not count for it.
    blocks.has_launched = True
    blocks.temp_file_sets = [blocks.upload_file_set]
    for block in blocks.blocks.values():
        block.temp_files = _Files()
        blocks.temp_file_sets.append(block.temp_files)
    # By itself the queue looks a thousand times a second, always, and takes that time from the thread that decodes.
    blocks._queue.sleep_when_free = LOOK_SECONDS
    blocks._queue.progress_update_sleep_when_free = 1.0  # nothing here reports progress that way
    with warnings.catch_warnings():
        # Gradio warns that pages behind routes are not rendered on the server, which was not asked for.
        warnings.filterwarnings("ignore", message="SSR mode is not supported")
        return gr.mount_gradio_app(
            app, blocks, path="/", footer_links=[], run_history=False, enable_monitoring=False, ssr_mode=False,
            pwa=False, mcp_server=False, show_error=True, max_file_size=MAX_UPLOAD,
            app_kwargs={"openapi_url": None, "exception_handlers": {Exception: _not_understood, 404: _nowhere}}, **look,
        )  # fmt: skip


class _Files(set[str]):
    """What Gradio removes every hour and at the end; a folder, which a request may name, would end that by an error."""

    def add(self, path: str) -> None:
        if Path(path).is_file():
            super().add(path)


def _not_understood(_: Request, error: Exception) -> Response:
    """What no page of ours sends, as an event of an older version's page, is no defect of the server."""
    if isinstance(error, OSError):  # no room for a file that is sent
        return PlainTextResponse(f"This could not be kept: {reason(error)}.", 503)
    return PlainTextResponse("This request is not understood here; load the page again.", 400)


_NOWHERE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    "<title>OmniDraft</title><style>body{font:1rem/1.5 system-ui,sans-serif;margin:20vh auto;max-width:26rem;"
    'padding:0 1rem}a{color:inherit}</style><p>There is no page at this address. <a href="/">Go to the chat</a></p>'
)


async def _nowhere(request: Request, error: HTTPException) -> Response:
    """A person who mistyped an address gets a page, a program what Gradio answers."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(_NOWHERE, 404)
    return await http_exception_handler(request, error)


# A page's HTML, which is empty but for its settings until Gradio's scripts have drawn it.


def with_more(html: str, head: str, body: str, mark: str) -> str:
    """Gradio's HTML with more at the beginning of its head and body, its root of the class `mark`; links in it start at
    the root, whatever the page's address is."""
    html = html.replace("<html", f'<html class="{mark}"', 1).replace('<base href="./" />', '<base href="/" />', 1)
    html = html.replace("<head>", f"<head>{head}", 1)
    at = html.index(">", html.index("<body")) + 1
    return f"{html[:at]}{body}{html[at:]}"


def changing_html(send: Send, change: Callable[[str], str]) -> Send:
    """`send` of an ASGI application; what is HTML goes out changed."""
    start: Message | None = None
    held = b""

    async def sending(message: Message) -> None:
        nonlocal start, held
        if message["type"] == "http.response.start" and _is_html(message):
            start = message
        elif start is None:
            await send(message)
        else:
            held += message.get("body", b"")
            if not message.get("more_body"):
                made = change(held.decode()).encode()
                MutableHeaders(scope=start)["content-length"] = str(len(made))
                await send(start)
                await send({"type": "http.response.body", "body": made})

    return sending


def _is_html(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("text/html")
