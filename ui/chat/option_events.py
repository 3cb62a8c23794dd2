"""What happens when a conversation's options change: its model, functions, sampling and system prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.app import conversing
from omnidraft.app.tool_use import UNSUPPORTED
from ui.chat import options as chat_options
from ui.chat.events import Handlers, Updates, telling
from ui.chat.parts import note
from ui.chat.tools import info
from ui.chat.turns import Followed

TOOLS_ON = "The model may ask for functions in this conversation; you decide about each call."
TOOLS_OFF = "The model is offered no functions in this conversation."


class Options(Handlers):
    """Model, speculation switch and options of the conversation."""

    @telling
    def target(self, path: str, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        yield from self.view.switch(session, name, Path(path), followed)

    @telling
    def speculate(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        changed = session.store.update(name, speculation=on)
        yield {self.view.side: self.view.panel_of(session, changed, session.store.path(name))}

    @telling
    def tools(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        """Whether the model may ask for functions; what was always allowed is asked again then. Starts the servers that
        the profile names."""
        session, name = self.here(request, chat)
        session.store.update(name, tools=() if on else None)
        if on and session.tools.listed():
            yield {self.view.notice: note("Starting the programs whose functions the model may ask for.")}
        failed = session.tools.retry() if on else []
        engine = session.assistant.engine
        known = engine is None or not on or engine.target.template.supports_tools
        told = (TOOLS_ON if on else TOOLS_OFF) if known else UNSUPPORTED.format(session.target_name())
        yield {
            self.view.tools: gr.Checkbox(info=info(session.tools)),
            self.view.notice: note(" ".join([told, *failed]), bad=bool(failed) or not known),
        }

    @telling
    def keep(self, request: gr.Request, shown: str | None, chat: str, *values: Any) -> Updates:
        """Of `chat`, which may have given way to `shown` since the values were written."""
        session, name = self.held(request, chat)
        sampling = chat_options.store(session, name, *values)
        preset = {self.view.options.preset: chat_options.preset_of(sampling)} if name == shown else {}
        yield {self.view.notice: "", **preset}

    @telling
    def preset(self, wanted: str, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        values = chat_options.PRESETS.get(wanted)
        if values is None:
            yield {self.view.notice: ""}
            return
        sampling = replace(conversing.sampling_of(session, session.store.get(name)), **values)
        changed = session.store.update(name, sampling=sampling)
        yield self.view.options.show(changed, sampling, conversing.thinking_words(session, changed))
