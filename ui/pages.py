"""Puts the pages together into one Gradio application."""

from __future__ import annotations

import gradio as gr

from ui import chat_page, models_page, settings_page
from ui.session import Sessions


def build(sessions: Sessions) -> gr.Blocks:
    """All pages; the chat is the first."""
    with gr.Blocks(title="OmniDraft", analytics_enabled=False, fill_width=True) as pages:
        chat_page.build(sessions)
    for name, path, module in (("Models", "models", models_page), ("Settings", "settings", settings_page)):
        with pages.route(name, path, show_in_navbar=False):
            module.build(sessions, pages)
    pages.queue(default_concurrency_limit=None, api_open=False)
    return pages
