"""The web server: the pages behind the guard, for this machine only, without telemetry of any kind.

Gradio's own `launch` is not used: mounting the pages in an application of ours decides what else is served and
makes no request of its own at the start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from gradio.routes import App

from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.uploads import clear_uploads
from omnidraft.server import HOST
from omnidraft.server.api import routes as api
from omnidraft.server.api.errors import error_reply
from omnidraft.server.guard.limits import Ending, Limits, Server
from omnidraft.server.guard.security import API, Guard, refuse_fetching
from omnidraft.settings.file import load_settings
from omnidraft.storage.files import reason
from ui import profiles as profiles_page
from ui import settings as settings_page
from ui.chat import page as chat_page
from ui.chat import transfer
from ui.common.frame import PAGES, STYLES, Frame, ThemeCookie, theme
from ui.drift import page as drift_page
from ui.learning import page as learning_page
from ui.models import page as models_page

# Puts the pages together into one Gradio application.


def build(sessions: Sessions) -> gr.Blocks:
    """All pages; the chat is the first."""
    others = {
        "Models": models_page,
        "Drift lab": drift_page,
        "Learning": learning_page,
        "Settings": settings_page,
        "Profiles": profiles_page,
    }
    with _applications_later():
        with gr.Blocks(title="OmniDraft", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as pages:
            chat_page.build(sessions)
        for name, module in others.items():
            with pages.route(name, PAGES[name][0], show_in_navbar=False):
                module.build(sessions, pages)
    pages.queue(default_concurrency_limit=None, api_open=False)
    return pages


@contextlib.contextmanager
def _applications_later() -> Iterator[None]:
    """By itself Gradio makes an application at the end of every page, none of them ever asked: half the time of a
    start."""
    create = App.create_app
    App.create_app = staticmethod(lambda *_, **__: None)
    try:
        yield
    finally:
        App.create_app = staticmethod(create)


MAX_UPLOAD = "64mb"  # an export brings its pictures along
SWITCH_SECONDS = 0.0005
LOOK_SECONDS = 0.02  # between looks of Gradio's queue at whether an event waits: what a click may wait for


def make_app(sessions: Sessions) -> FastAPI:
    """The application that serves everything."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            sessions.close()

    app = FastAPI(title="OmniDraft", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.sessions = sessions
    app.add_exception_handler(OmniDraftError, _told)
    app.add_middleware(Frame)
    app.add_middleware(ThemeCookie, sessions=sessions)
    app.add_middleware(Limits)
    app.add_middleware(Guard, origins=lambda: _origins(sessions))
    transfer.add_routes(app, sessions)
    profiles_page.add_routes(app, sessions)
    api.add_routes(app, sessions)
    with warnings.catch_warnings():
        # Gradio warns that pages behind routes are not rendered on the server, which was not asked for.
        warnings.filterwarnings("ignore", message="SSR mode is not supported")
        return _mounted(app, sessions)


def _origins(sessions: Sessions) -> tuple[str, ...]:
    """The setting of the profile the app starts with: a page of another address sends no cookie that names one."""
    try:
        return load_settings(sessions.home.profile(sessions.default, create=False).settings)[0].allowed_origins
    except OmniDraftError:
        return ()  # what is wrong with the file is told where it is used


def _told(request: Request, error: Exception) -> Response:
    """What a user can mend, as a full disk, in a sentence wherever it comes up."""
    if request.url.path.startswith(API):
        return error_reply(str(error), 503)
    return PlainTextResponse(str(error), 503)


def _within_gradio(_: Request, error: Exception) -> Response:
    """What no page of ours sends, as an event of an older version's page, is no defect of the server."""
    if isinstance(error, OSError):  # no room for a file that is sent
        return PlainTextResponse(f"This could not be kept: {reason(error)}.", 503)
    return PlainTextResponse("This request is not understood here; load the page again.", 400)


def _mounted(app: FastAPI, sessions: Sessions) -> FastAPI:
    clear_uploads(sessions.home)  # what a killed app left
    os.environ["GRADIO_TEMP_DIR"] = str(sessions.home.uploads)  # read when blocks and routes are made
    refuse_fetching()
    blocks = build(sessions)
    # Until it was launched, Gradio takes any path of this machine for an uploaded file. Mounting does not count for it.
    blocks.has_launched = True
    blocks.temp_file_sets = [blocks.upload_file_set]
    for block in blocks.blocks.values():
        block.temp_files = _Files()
        blocks.temp_file_sets.append(block.temp_files)
    # By itself the queue looks a thousand times a second, always, and takes that time from the thread that decodes.
    blocks._queue.sleep_when_free = LOOK_SECONDS
    blocks._queue.progress_update_sleep_when_free = 1.0  # nothing here reports progress that way
    return gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        theme=theme(),
        css_paths=STYLES,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        show_error=True,
        max_file_size=MAX_UPLOAD,
        app_kwargs={"openapi_url": None, "exception_handlers": {Exception: _within_gradio}},
    )


class _Files(set[str]):
    """What Gradio removes every hour and at the end; a folder, which a request may name, would end that by an error."""

    def add(self, path: str) -> None:
        if Path(path).is_file():
            super().add(path)


def serve(app: FastAPI, port: int) -> None:
    """Serve until interrupted."""
    # The thread that decodes gives the interpreter away with every pass; it must not wait 5 ms to get it back.
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        Ending(app, app.state.sessions.end), host=HOST, port=port, http="h11", ws="none", log_config=None,
        log_level="warning", access_log=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    Server(config).run()
