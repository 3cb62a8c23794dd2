"""Puts the pages together into one Gradio application."""

from __future__ import annotations

import gradio as gr

from omnidraft.app.sessions import Sessions
from ui import profiles as profiles_page
from ui import settings as settings_page
from ui.chat import page as chat_page
from ui.common.frame import PAGES
from ui.drift import page as drift_page
from ui.learning import page as learning_page
from ui.models import page as models_page


def build(sessions: Sessions) -> gr.Blocks:
    """All pages; the chat is the first."""
    with gr.Blocks(title="OmniDraft", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as pages:
        chat_page.build(sessions)
    others = {
        "Models": models_page,
        "Drift lab": drift_page,
        "Learning": learning_page,
        "Settings": settings_page,
        "Profiles": profiles_page,
    }
    for name, module in others.items():
        with pages.route(name, dict(PAGES)[name], show_in_navbar=False):
            module.build(sessions, pages)
    pages.queue(default_concurrency_limit=None, api_open=False)
    return pages
