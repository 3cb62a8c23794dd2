"""Reads answers made of channels: `<|channel|>analysis<|message|>...<|end|><|start|>assistant...`.

After OpenAI's description of the format (https://github.com/openai/harmony, docs/format.md): a message is a header
of role, recipient and channel, then its content. `analysis` is thought, `final` the answer, `commentary` without a
recipient what is said on the way; a message to `functions.NAME` is a call, on whatever channel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.formats.calls import JsonReader, Tools
from omnidraft.backends.prompting.formats.events import (
    Arguments,
    CallBegun,
    CallBroken,
    CallEnded,
    Content,
    Event,
    Thoughts,
)
from omnidraft.backends.prompting.formats.markers import Found, Markers

# Thoughts begin, thoughts end, and an answer begins without any.
THOUGHT_MARKS = (
    "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
)
_HEADER = Markers([(("<|message|>",), "message"), (("<|start|>",), "start")])
_ENDS = [(("<|end|>",), "end"), (("<|call|>",), "end"), (("<|return|>",), "end")]
_BODY = Markers([*_ENDS, (("<|start|>",), "start"), (("<|channel|>",), "channel")])
_TO = re.compile(r"to=([\w.\-:]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_HEADED = re.compile(r"<\|(?:channel|constrain)\|>\s*\w*|to=\S*|^\s*assistant\b")  # what headers are made of


class HarmonyReader:
    """Has the interface of `AnswerReader`."""

    def __init__(self, tools: Mapping[str, Any] | None = None, begun: str = "") -> None:
        self._tools = Tools(tools)
        self._events: list[Event] = []
        self._text = begun
        self._header: str | None = ""  # of the message that begins; None within one
        self._say: type[Thoughts] | type[Content] | None = None
        self._space = ""
        self._said = False
        self._call: JsonReader | None = None
        self._raw: list[str] = []

    def feed(self, text: str) -> list[Event]:
        self._text += text
        self._run(False)
        return self._told()

    def finish(self, cut: bool = False) -> list[Event]:
        if cut:
            self._call = None
            self._text = "" if self._text.startswith("<|") else self._text
            self._header = "" if self._header and _HEADED.search(self._header) else self._header
        self._run(True)
        return self._told()

    def _told(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _run(self, final: bool) -> None:
        while self._text or (final and self._call is not None):
            before = len(self._text), self._header is None
            (self._body if self._header is None else self._head)(final)
            if before == (len(self._text), self._header is None):
                break
        if final and self._header:  # which nothing came behind
            text = _HEADED.sub("", self._header) if "<|" in self._header else self._header
            self._events += [Content(text.lstrip())] if text.strip() else []
            self._header = ""

    def _head(self, final: bool) -> None:
        assert self._header is not None
        found = _HEADER.find(self._text, final)
        taken = found if isinstance(found, int) else found.start
        self._header += self._take(taken)
        if not _may_head(self._header):
            self._text = self._header + self._text
            self._open("")
            return
        if isinstance(found, int):
            return
        self._take(found.end - found.start)
        if found.meaning == "message":
            self._open(self._header)
        else:
            self._header = ""

    def _open(self, header: str) -> None:
        recipient = _TO.search(header)
        channels = _CHANNEL.findall(header)
        to = recipient[1] if recipient and recipient[1] not in ("assistant", "user") else ""
        self._header, self._said, self._space, self._raw = None, False, "", []
        self._call, self._say = None, None
        if to:
            name = self._tools.known(to)
            if name is not None and (to.startswith("functions.") or not self._tools.unknown):
                self._events.append(CallBegun(name))
                self._call = JsonReader((), lambda piece: self._events.append(Arguments(piece)))
            elif to.startswith("functions."):
                self._say = Content  # no such function
        else:
            self._say = Thoughts if channels[-1:] == ["analysis"] else Content

    def _body(self, final: bool) -> None:
        if self._call is not None:
            self._arguments(final)
            return
        found = _BODY.find(self._text, final)
        self._give(self._take(found if isinstance(found, int) else found.start))
        if isinstance(found, Found):
            if found.meaning != "channel":
                self._take(found.end - found.start)
            self._header = ""

    def _arguments(self, final: bool) -> None:
        call = self._call
        assert call is not None
        stop = call.feed(self._text, 0, final)
        self._raw.append(self._take(stop))
        if call.done and not call.failed:
            self._events.append(CallEnded())
        elif call.failed:
            self._events.append(CallBroken("".join(self._raw)))
            self._say, self._said = Content, True
        if call.done or call.failed:
            self._call = None

    def _give(self, text: str) -> None:
        if self._say is None:
            return
        if self._say is Content:
            self._events += [Content(text)] if text else []
            return
        text = self._space + text if self._said else text.lstrip()
        words = text.rstrip()
        self._space = text[len(words) :]
        if words:
            self._said = True
            self._events.append(Thoughts(words))

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken


def _may_head(text: str) -> bool:
    """Whether a message's header may begin so: a role and a recipient, in front of the channel. An answer may have no
    header, and still be followed by a call that has one."""
    *words, last = text.partition("<|")[0].split() or [""]
    begun = last.startswith("to=") or "to=".startswith(last) or "assistant".startswith(last)
    return begun and all(word == "assistant" or word.startswith("to=") for word in words)
