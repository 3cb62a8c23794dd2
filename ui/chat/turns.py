"""A conversation as the chat shows it: one entry per row, and for each row what one can do with it.

Folds `<think>` blocks and notes about a change of models into rows of their own. Pure; everything here is text that
the chatbot renders as Markdown and sanitizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from omnidraft.app.answer_job import CUT
from omnidraft.chats import Message
from omnidraft.format import size

THINK = ("<think>", "</think>")


@dataclass(frozen=True, slots=True)
class Turns:
    """`rows` for the chatbot; `marks` says per row which message it belongs to (None: a fold) and its versions."""

    rows: list[dict]
    marks: list[dict | None]

    def marks_html(self) -> str:
        """The marks where the page script finds them."""
        return f'<div id="od-marks" hidden data-marks="{escape(json.dumps(self.marks), quote=True)}"></div>'


def turns(path: list[Message], versions: dict[str, tuple[int, int]], writing: tuple[str, str] | None = None) -> Turns:
    """The rows of `path`. `writing` is (message id, text so far) of an answer in the making."""
    rows: list[dict] = []
    marks: list[dict | None] = []
    for index, message in enumerate(path):
        if message.role not in ("user", "assistant"):
            continue
        busy = writing is not None and writing[0] == message.id
        if note := message.meta.get("note"):
            rows.append(_fold("Another model", note, "done"))
            marks.append(None)
        text = writing[1] if busy and writing else message.content
        if message.role == "assistant":
            thought, text, thinking = split_thought(text)
            if thought:
                rows.append(_fold("Thinking" if thinking else "Thoughts", thought, "pending" if thinking else "done"))
                marks.append(None)
        rows.append({"role": message.role, "content": _as_is(text or _empty(message, busy))})
        last = index == len(path) - 1 and not busy
        marks.append(_mark(message, versions.get(message.id, (1, 1)), last, busy))
    return Turns(rows, marks)


def _mark(message: Message, version: tuple[int, int], last: bool, busy: bool) -> dict:
    """What the page script needs to know of a message: `cut` is an answer that did not end by itself."""
    mark = {
        "id": message.id,
        "role": message.role,
        "place": version[0],
        "count": version[1],
        "last": last,
        "busy": busy,
    }
    if last and message.role == "assistant" and message.content:
        mark["cut"] = message.partial or message.meta.get("finish_reason") in CUT
    if files := message.files:
        mark["files"] = [[file.name, size(file.bytes)] for file in files]
    return mark


def split_thought(text: str) -> tuple[str, str, bool]:
    """(thought, what follows, still thinking) of an answer that begins with a think block; ("", text, False) if not."""
    stripped = text.lstrip()
    if not stripped.startswith(THINK[0]):
        return "", text, False
    thought, closed, rest = stripped[len(THINK[0]) :].partition(THINK[1])
    return thought.strip(), rest.lstrip(), not closed


def _fold(title: str, text: str, status: str) -> dict:
    return {"role": "assistant", "content": _as_is(text), "metadata": {"title": title, "status": status}}


def _as_is(text: str) -> dict:
    """A row's content as Gradio leaves it alone: from plain text it takes indentation and tabs away."""
    return {"type": "text", "text": text}


def _empty(message: Message, busy: bool) -> str:
    if busy:
        return "…"
    if message.role == "user":
        return " "
    if error := message.meta.get("error"):
        return f"*No answer: {error}*"
    return "*No answer was written.*"
