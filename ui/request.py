"""Which profile a request belongs to. The only place that reads it, so that one rule decides for every page."""

from __future__ import annotations

import gradio as gr
from fastapi import Request

from ui.session import Session, Sessions


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in, for an event of a page."""
    return sessions.get()


def session_of_request(sessions: Sessions, request: Request) -> Session:
    """The same for a plain request."""
    return sessions.get()
