"""Which profile a request belongs to. The only place that reads it, so that one rule decides for every page."""

from __future__ import annotations

import gradio as gr

from ui.session import Session, Sessions


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in."""
    return sessions.get()
