"""Answers made of channels: `<|channel|>analysis<|message|>...<|end|><|start|>assistant...`. After OpenAI's description
of the format (https://github.com/openai/harmony, docs/format.md): a message is a header of role, recipient and
channel, then its content. `analysis` is thought, `final` the answer, `commentary` without a recipient what is said on
the way; a message to `functions.NAME` is a call, on whatever channel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from omnidraft.prompting.formats.arguments import Arguments, Held, json_arguments
from omnidraft.prompting.formats.calls import Tools
from omnidraft.prompting.formats.chat_format import Call, Content, Event, Thoughts
from omnidraft.prompting.formats.pattern import Markers
from omnidraft.prompting.formats.told import Told

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
        self._told = Told()
        self._text = begun
        self._header: str | None = ""  # of the message that begins; None within one
        self._say: type[Thoughts] | type[Content] | None = None
        self._name = ""  # of the call that the message is

    def feed(self, text: str) -> list[Event]:
        self._text += text
        if not self._name or "}" in text:
            self._run(False)
        return self._told.take()

    def finish(self, cut: bool = False) -> list[Event]:
        if cut and self._name:
            found = json_arguments(self._text, 0, (), True)
            given = found.text if isinstance(found, Arguments) else ""
            self._told.add([Call(self._name, given, whole=False)])
            self._name = self._text = ""
        elif cut:
            self._text = "" if self._text.startswith("<|") else self._text
            self._header = "" if self._header and _HEADED.search(self._header) else self._header
        self._run(True)
        return self._told.take()

    def _run(self, over: bool) -> None:
        while self._text:
            before = len(self._text), self._header is None, self._name
            (self._body if self._header is None else self._head)(over)
            if before == (len(self._text), self._header is None, self._name):
                break
        if over and self._header:  # which nothing came behind
            text = _HEADED.sub("", self._header) if "<|" in self._header else self._header
            self._told.add([Content(text.lstrip())] if text.strip() else [])
            self._header = ""

    def _head(self, over: bool) -> None:
        assert self._header is not None
        found = _HEADER.find(self._text, over)
        self._header += self._take(found.start)
        if not _may_head(self._header):
            self._text = self._header + self._text
            self._open("")
            return
        if found.meaning is None:
            return
        self._take(found.length)
        if found.meaning == "message":
            self._open(self._header)
        else:
            self._header = ""

    def _open(self, header: str) -> None:
        recipient = _TO.search(header)
        channels = _CHANNEL.findall(header)
        to = recipient[1] if recipient and recipient[1] not in ("assistant", "user") else ""
        self._header, self._say = None, Thoughts if channels[-1:] == ["analysis"] else Content
        self._told.begin_thoughts()
        if to:
            name = self._tools.known(to)
            ours = to.startswith("functions.")
            self._name = name if name is not None and (ours or not self._tools.unknown) else ""
            self._say = Content if ours else None  # such a function there may be none

    def _body(self, over: bool) -> None:
        if self._name:
            self._call(over)
            return
        found = _BODY.find(self._text, over)
        self._give(self._take(found.start))
        if found.meaning is not None:
            self._take(0 if found.meaning == "channel" else found.length)
            self._header = ""

    def _call(self, over: bool) -> None:
        found = json_arguments(self._text, 0, (), over)
        if isinstance(found, Held):
            return
        if found is not None and found.lacks is not None:
            self._told.add([Call(self._name, found.text)])
            self._take(found.end)
            self._say = None
        else:
            self._say = Content
        self._name = ""

    def _give(self, text: str) -> None:
        if self._say is Thoughts:
            self._told.think(text)
        elif self._say is Content and text:
            self._told.add([Content(text)])

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken


def _may_head(text: str) -> bool:
    """Whether a message's header may begin so: a role and a recipient, in front of the channel. An answer may have no
    header, and still be followed by a call that has one."""
    *words, last = text.partition("<|")[0].split() or [""]
    begun = last.startswith("to=") or "to=".startswith(last) or "assistant".startswith(last)
    return begun and all(word == "assistant" or word.startswith("to=") for word in words)
