"""A conversation on the terminal, or through a pipe: one line, one question."""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress

from omnidraft.app.assistant import Assistant
from omnidraft.cli.interrupt import Interrupts
from omnidraft.cli.report import summary
from omnidraft.config import DraftSettings, SamplingSettings
from omnidraft.decoding.events import Finished, Notice, Token
from omnidraft.errors import OmniDraftError

Message = dict[str, str]
_HELP = "Ctrl+C stops an answer. /new starts over, /exit or Ctrl+D ends."


def converse(assistant: Assistant, sampling: SamplingSettings, draft: DraftSettings, system: list[Message]) -> int:
    """Ask and answer until the input ends. Returns 2 if a piped question could not be answered, else 0."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with suppress(ImportError):  # line editing and history, where the system has it
            importlib.import_module("readline")
    failed = False
    messages, chat = list(system), new_chat()
    name = assistant.target.name if assistant.target is not None else ""
    print(f"{name}. {_HELP}", file=sys.stderr)
    for line in _lines("> " if at_terminal else ""):
        if line in ("/exit", "/quit"):
            break
        if line == "/new":
            messages, chat = list(system), new_chat()
            print("A new conversation.", file=sys.stderr)
            continue
        asked = [*messages, {"role": "user", "content": line}]
        try:
            said = _answer(assistant, asked, sampling, draft, chat)
        except OmniDraftError as error:  # this question failed, not the conversation
            print(f"omnidraft: {error}", file=sys.stderr)
            failed = True
            continue
        messages = [*asked, {"role": "assistant", "content": said}]
    return 2 if failed and not at_terminal else 0


def new_chat() -> str:
    """A name under which what is learned on the terminal can be forgotten; the conversation itself is not kept."""
    return f"terminal-{uuid.uuid4().hex}"


def _answer(
    assistant: Assistant, messages: list[Message], sampling: SamplingSettings, draft: DraftSettings, chat: str
) -> str:
    """Print an answer as it comes; returns its text, also if it was stopped."""
    said: list[str] = []
    events = assistant.answer(messages, sampling, draft, chat=chat)
    with Interrupts(assistant.stop) as interrupts:
        try:
            for event in events:
                if isinstance(event, (Token, Finished)):
                    said.append(event.text)
                    print(event.text, end="", flush=True)
                if isinstance(event, Finished):
                    print()
                    print(("[stopped] " if event.reason == "cancelled" else "") + summary(event), file=sys.stderr)
                elif isinstance(event, Notice):
                    print(event.text, file=sys.stderr)
                elif interrupts.pending and not isinstance(event, Token):
                    assistant.stop()  # in case it came before the engine had begun
        finally:
            events.close()
    return "".join(said)


def _lines(prompt: str) -> Iterator[str]:
    """Non-empty input lines until the input ends."""
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            if prompt:
                print()
            return
        if line:
            yield line
