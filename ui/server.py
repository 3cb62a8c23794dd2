"""The web server: the pages behind the guard, for this machine only, without telemetry of any kind."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from functools import partial

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.uploads import clear_uploads
from omnidraft.server import HOST
from omnidraft.server.api import routes as api
from omnidraft.server.api.errors import error_reply
from omnidraft.server.guard.limits import Ending, Limits, Server
from omnidraft.server.guard.security import API, Guard
from omnidraft.settings.file import load_settings
from ui import profiles as profiles_page
from ui import settings as settings_page
from ui.chat import page as chat_page
from ui.chat import transfer
from ui.common.frame import PAGES, STYLES, Frame
from ui.common.theme import theme
from ui.drift import page as drift_page
from ui.gradio_ways import applications_later, mounted
from ui.learning import page as learning_page
from ui.models import page as models_page


def build(sessions: Sessions) -> gr.Blocks:
    """All pages; the chat is the first."""
    others = {
        "Models": models_page,
        "Drift lab": drift_page,
        "Learning": learning_page,
        "Settings": settings_page,
        "Profiles": profiles_page,
    }
    with applications_later():
        with gr.Blocks(title="OmniDraft", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as pages:
            chat_page.build(sessions, pages)
        for name, module in others.items():
            with pages.route(name, PAGES[name][0], show_in_navbar=False):
                module.build(sessions, pages)
    pages.queue(default_concurrency_limit=None, api_open=False)
    return pages


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
    app.add_middleware(Frame, sessions=sessions)
    app.add_middleware(Limits)
    app.add_middleware(Guard, origins=lambda: _origins(sessions))
    transfer.add_routes(app, sessions)
    profiles_page.add_routes(app, sessions)
    api.add_routes(app, sessions)
    clear_uploads(sessions.home)  # what a killed app left
    return mounted(app, partial(build, sessions), sessions.home.uploads, theme=theme(), css_paths=STYLES)


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


def serve(app: FastAPI, port: int) -> None:
    """Serve until interrupted."""
    # The thread that decodes gives the interpreter away with every pass; it must not wait 5 ms to get it back.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        Ending(app, app.state.sessions.end), host=HOST, port=port, http="h11", ws="none", log_config=None,
        log_level="warning", access_log=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    Server(config).run()
