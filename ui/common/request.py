"""The session of the browser that an event of a page comes from."""

from __future__ import annotations

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.server.request_session import session_of_request


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in, for an event of a page."""
    return session_of_request(sessions, request.request)
