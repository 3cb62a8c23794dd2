"""A conversation on the terminal, or through a pipe: one line, one question."""

from __future__ import annotations

import importlib
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.backends.pictures import Picture, open_picture
from omnidraft.backends.prompting.formats.events import collect
from omnidraft.backends.prompting.picture_marks import with_pictures
from omnidraft.cli.interrupt import Interrupts
from omnidraft.cli.report import printed, summary
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import DraftSettings, SamplingSettings

Message = dict[str, Any]
_HELP = "Ctrl+C stops an answer. /help lists the commands, /exit or Ctrl+D ends."
_COMMANDS = """\
/help         this list
/model        the model that answers
/model NAME   answer with another one from here on
/image FILE   a picture that the next message is about
/stats        speed and drafting of the last answer
/new          a new conversation
/exit         end, as Ctrl+D"""
_COMMAND = re.compile(r"/([A-Za-z?]+)(?:\s+(.*))?")


def converse(
    assistant: Assistant,
    sampling: SamplingSettings,
    draft: DraftSettings,
    system: list[Message],
    pictures: list[Picture],
    load: Callable[[str], None],
) -> int:
    """Ask and answer until the input ends. Returns 2 if a piped question could not be answered, else 0.

    pictures: what the first message is about. `load` makes the model of that name the one that answers.
    """
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with suppress(ImportError):  # line editing and history, where the system has it
            importlib.import_module("readline")
    failed = False
    messages, chat, last = list(system), new_chat(), None
    name = assistant.target.name if assistant.target is not None else ""
    print(f"{name}. {_HELP}", file=sys.stderr)
    for line in _lines("> " if at_terminal else ""):
        if (command := _COMMAND.fullmatch(line)) is not None:
            word, value = command[1].lower(), (command[2] or "").strip()
            if word in ("exit", "quit"):
                break
            if word == "new":
                messages, chat, pictures = list(system), new_chat(), []
            told = _attach(value, pictures) if word == "image" else _told(word, value, assistant, last, load)
            print(told, file=sys.stderr)
            continue
        asked = [*messages, {"role": "user", **with_pictures(line, pictures)}]
        try:
            said, last = _answer(assistant, asked, sampling, draft, chat)
        except OmniDraftError as error:  # this question failed, not the conversation
            print(f"omnidraft: {error}", file=sys.stderr)
            failed = True
            continue
        pictures = []
        messages = [*asked, _told_again(assistant, said, sampling)]
    return 2 if failed and not at_terminal else 0


def _attach(path: str, pictures: list[Picture]) -> str:
    """Add the picture in a file to `pictures`; what there is to say about it."""
    try:
        pictures.append(open_picture(path))
    except OmniDraftError as error:
        return f"omnidraft: {error}"
    return f"The next message is about {'this picture' if len(pictures) == 1 else f'{len(pictures)} pictures'}."


def _told(name: str, value: str, assistant: Assistant, last: Finished | None, load: Callable[[str], None]) -> str:
    """Do what a command says; what there is to say about it."""
    if name == "new":
        return "A new conversation."
    if name == "stats":
        return summary(last) if last is not None else "Nothing was answered yet."
    if name == "model":
        if value:
            try:
                load(value)
            except OmniDraftError as error:
                return f"omnidraft: {error}"
        return f"{assistant.target.name if assistant.target is not None else value} answers."
    if name in ("help", "?"):
        return _COMMANDS
    return f"There is no command /{name[:40]}.\n{_COMMANDS}"


def new_chat() -> str:
    """A name under which what is learned on the terminal can be forgotten; the conversation itself is not kept."""
    return f"terminal-{uuid.uuid4().hex}"


def _answer(
    assistant: Assistant, messages: list[Message], sampling: SamplingSettings, draft: DraftSettings, chat: str
) -> tuple[str, Finished | None]:
    """Print an answer as it comes; returns its text, also if it was stopped, and its end."""
    said: list[str] = []
    finished = None
    request = AnswerRequest(messages, sampling, draft, source=chat, capture=assistant.capture)
    with Interrupts(assistant.stop) as interrupts:
        for event in printed(assistant, request, interrupts):
            if isinstance(event, (Token, Finished)):
                said.append(event.text)
            if isinstance(event, Finished):
                finished = event
                print()
                print(("[stopped] " if event.reason == "cancelled" else "") + summary(event), file=sys.stderr)
    return "".join(said), finished


def _told_again(assistant: Assistant, said: str, sampling: SamplingSettings) -> Message:
    """An answer as later turns get it: its thoughts apart."""
    assert assistant.engine is not None  # it has just answered
    reader = AnswerRequest((), sampling).told(assistant.engine.target.template).reader({})
    read = collect([*reader.feed(said), *reader.finish()])
    return {"role": "assistant", "content": read.content, "reasoning_content": read.reasoning}


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
