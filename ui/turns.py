"""A conversation as the chat shows it: one entry per row, and for each row what one can do with it.

Folds `<think>` blocks and notes about a change of models into rows of their own. Pure; everything here is text that
the chatbot renders as Markdown and sanitizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from omnidraft.chats import Message

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
        rows.append({"role": message.role, "content": text or _empty(message, busy)})
        place, count = versions.get(message.id, (1, 1))
        marks.append(
            {
                "id": message.id,
                "role": message.role,
                "place": place,
                "count": count,
                "last": index == len(path) - 1 and not busy,
                "busy": busy,
            }
        )
    return Turns(rows, marks)


def split_thought(text: str) -> tuple[str, str, bool]:
    """(thought, what follows, still thinking) of an answer that begins with a think block; ("", text, False) if not."""
    stripped = text.lstrip()
    if not stripped.startswith(THINK[0]):
        return "", text, False
    thought, closed, rest = stripped[len(THINK[0]) :].partition(THINK[1])
    return thought.strip(), rest.lstrip(), not closed


def _fold(title: str, text: str, status: str) -> dict:
    return {"role": "assistant", "content": text, "metadata": {"title": title, "status": status}}


def _empty(message: Message, busy: bool) -> str:
    if busy:
        return "…"
    if message.role == "user":
        return " "
    if error := message.meta.get("error"):
        return f"*No answer: {error}*"
    return "*No answer was written.*"
