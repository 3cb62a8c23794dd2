"""A conversation as the chat shows it: one entry per row, and for each row what one can do with it.

Folds `<think>` blocks and notes about a change of models into rows of their own. Pure; everything here is Markdown
without HTML (`markdown`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from omnidraft.app.conversing import unanswered
from omnidraft.chats import Message
from omnidraft.chats.records import Step, open_call
from omnidraft.chats.search import in_tags
from omnidraft.decoding.events import CUT, ORIGINS
from omnidraft.format import size
from ui.chat.markdown import CODE, as_typed, without_html
from ui.chat.panel import ORIGIN_WORDS
from ui.chat.parts import CALL_WAITS, call_text, call_title
from ui.common.notes import tip

MOST = 500  # messages shown
LONGEST = 6000  # characters of a question shown; whoever wrote more knows the rest
WAITING = "*Waiting for another answer to end; Stop takes it back.*"
UNANSWERED = "*No answer was written; Answer again asks for one.*"  # the program ended before, or it came in so
_THINK = re.compile(r"(?:\A|^)[ \t]*<think(?:ing)?>(.*?)(</think(?:ing)?>\s*|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Turns:
    """`rows` for the chatbot; `marks` says per row which message it belongs to (None: a fold) and its versions."""

    rows: list[dict]
    marks: list[dict | None]

    def marks_html(self, chat: str = "") -> str:
        """The marks, and whose they are, where the page scripts find them; no two are equal, so each is seen there."""
        marks, whose = (escape(text) for text in (json.dumps(self.marks), chat))
        seen = f'data-chat="{whose}" data-now="{time.monotonic_ns()}" data-marks="{marks}"'
        return f'<div id="od-marks" hidden {seen}></div>'


def turns(
    path: list[Message],
    versions: dict[str, tuple[int, int]],
    writing: tuple[str | None, str] | None = None,
    steps: Sequence[Step] = (),
    waits: str = "",
) -> Turns:
    """The rows of `path`, of a very long one of its end. `writing` is (message id, text so far) of an answer in the
    making, `steps` its calls: all rows are made anew with every update while it grows. waits: what the last question
    waits for, if it does."""
    rows: list[dict] = []
    marks: list[dict | None] = []
    if earlier := len(path[:-MOST]):
        path = path[-MOST:]
        rows.append(_fold("Earlier messages", f"{earlier:,} earlier messages are only in an export.", "done"))
        marks.append(None)
    without = unanswered(path)
    for index, message in enumerate(path):
        if message.role not in ("user", "assistant"):
            continue
        busy = writing is not None and writing[0] == message.id
        if note := message.meta.get("note"):
            rows.append(_fold("Another model", note, "done"))
            marks.append(None)
        text = writing[1] if busy and writing else message.content
        called = steps if busy else message.steps
        if message.role == "assistant":
            *before, text = _with_calls(text, called, message.meta if text else {})
            rows += before
            marks += [None] * len(before)
        said = _shown(text) if message.role == "user" else text
        rows.append({"role": message.role, "content": _as_is(said or _empty(message, busy, called))})
        last = index == len(path) - 1 and not busy
        mark = _mark(message, versions.get(message.id, (1, 1)), last, busy)
        marks.append({**mark, "out": True} if message.id in without and not last else mark)
    asked = marks[-1] if marks else None
    if asked and (waits or asked["role"] == "user"):
        rows.append(in_place_of_answer(waits or UNANSWERED))
        asked["again"] = not waits
    return Turns(rows, marks)


def awaited(question: str, instead: str) -> list[dict]:
    """Rows of a question that waits for its answer, and what stands in the answer's place meanwhile."""
    return [{"role": "user", "content": _as_is(_shown(question))}, in_place_of_answer(instead)]


def in_place_of_answer(text: str) -> dict:
    return {"role": "assistant", "content": _as_is(text)}


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
    if message.role == "assistant" and (model := message.meta.get("target")):
        mark["model"] = model
    if last and message.role == "assistant" and message.content:
        mark["cut"] = message.partial or message.meta.get("finish_reason") in CUT
    if message.pictures:
        mark["pictures"] = message.pictures
    if files := message.files:
        mark["files"] = [[file.name, " · ".join(filter(None, [size(file.bytes), file.missing]))] for file in files]
    return mark


def _with_calls(text: str, steps: Sequence[Step], meta: Mapping[str, Any]) -> list:
    """Rows for all calls and what was said before them, then the text behind the last. meta: the answer's."""
    rows, start = [], 0
    for step in steps:
        *before, said = _parts(_opened(text[start : step.at], meta))
        rows += [*before, *([{"role": "assistant", "content": _as_is(said)}] if said.strip() else [])]
        rows += [_fold(call_title(call), call_text(call), "done") for call in step.calls]
        start = step.at
    return [*rows, *_parts(_opened(text[start:], meta))]


def _opened(text: str, meta: Mapping[str, Any]) -> str:
    """A part of an answer with its thoughts in `<think>`. Where the prompt opened them, only their end is written."""
    if marks := meta.get("marks"):
        return in_tags(text, marks)
    return f"<think>\n{text}" if meta.get("thinks") and not text.lstrip().startswith("<think") else text


def _parts(text: str) -> list:
    """Rows for all thoughts and what stands before them, then the text behind the last."""
    rows, end = [], 0
    for thought in _thoughts(text):
        if said := text[end : thought.start()].strip():
            rows.append({"role": "assistant", "content": _as_is(said)})
        if inside := thought[1].strip():
            rows.append(_fold("Thoughts", inside, "done") if thought[2] else _fold("Thinking", inside, "pending"))
        end = thought.end()
    return [*rows, text[end:]]


def _thoughts(text: str) -> list[re.Match[str]]:
    """Think blocks, each at the beginning of a line; not those that code speaks of."""
    if "<think" not in text:
        return []
    code = [found.span() for found in CODE.finditer(text)]
    found = _THINK.finditer(text)
    return [one for one in found if not any(start < one.start(1) - 1 < end for start, end in code)]


def _fold(title: str, text: str, status: str) -> dict:
    return {"role": "assistant", "content": _as_is(text), "metadata": {"title": title, "status": status}}


def _shown(question: str) -> str:
    """Of a long question its beginning: all rows go to the page again with every update of the answer."""
    rest = len(question) - LONGEST
    more = f"\n\n*… and {rest:,} more characters; Copy takes all.*" if rest > 0 else ""
    return as_typed(question[:LONGEST]) + more


def _as_is(text: str) -> dict:
    """A row's content as Gradio leaves it alone: from plain text it takes indentation and tabs away."""
    return {"type": "text", "text": without_html(text)}


def _empty(message: Message, busy: bool, steps: Sequence[Step]) -> str:
    if busy:
        return "…"
    if open_call(steps) is not None:
        return CALL_WAITS
    if message.role == "user":
        return " "
    if error := message.meta.get("error"):
        return f"*No answer: {error}*"
    return "*No answer was written.*"


# Where each token of an answer came from, as coloured text beside the conversation, never inside it. Colouring the
# answer itself would end up in the clipboard.


_MOST = 4000  # tokens shown, the last ones
_UNKNOWN = "unknown"  # for what an imported conversation says that this program never did
_WORDS = {**ORIGIN_WORDS, _UNKNOWN: "of unknown origin"}


def origins(pieces: list[tuple[str, str]]) -> str:
    """HTML for (text, origin) pairs."""
    if not pieces:
        return '<p class="od-none">Once there is an answer, every token shows here in the colour of its origin.</p>'
    known = [(text, origin if origin in ORIGINS else _UNKNOWN) for text, origin in pieces]
    seen = {origin for _, origin in known}
    key = "".join(f'<li><i class="od-o-{o}"></i>{tip(_WORDS[o])}</li>' for o in (*ORIGINS, _UNKNOWN) if o in seen)
    cut = f"<p>The last {_MOST:,} tokens.</p>" if len(pieces) > _MOST else ""
    text = "".join(f'<span class="od-k od-k-{o}" title="{_WORDS[o]}">{_spaced(t)}</span>' for t, o in known[-_MOST:])
    return (
        f'<section class="od-panel"><ul class="od-legend">{key}</ul>{cut}<div class="od-tokens">{text}</div></section>'
    )


def _spaced(text: str) -> str:
    return escape(text).replace("\n", "↵<br>") if text else "·"
