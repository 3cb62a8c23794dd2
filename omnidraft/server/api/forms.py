"""One choice of a completion as its form has it. Of a chat: its message or the deltas of it, with calls of tools where
they were offered; of the older kind: a text that goes on where the prompt ended."""

from __future__ import annotations

import uuid
from typing import Any

from omnidraft.app.answer_job import AnswerJob
from omnidraft.backends.prompting.formats.chat_format import (
    Arguments,
    CallBegun,
    CallBroken,
    CallEnded,
    Content,
    Event,
    Thoughts,
    collect,
)
from omnidraft.backends.prompting.formats.open import Reader
from omnidraft.server.api.logprobs import Logprobs
from omnidraft.server.api.messages import Tools


class ChatForm:
    """reader: parts thoughts and calls from the text. tools: None where none were offered; logprobs where not asked."""

    kind, prefix = "chat.completion", "chatcmpl"

    def __init__(
        self, job: AnswerJob, reader: Reader, tools: Tools | None = None, logprobs: Logprobs | None = None
    ) -> None:
        self._job, self._reader, self._logprobs = job, reader, logprobs
        self.tools = tools
        self._one = tools is not None and tools.one
        self._read = 0
        self._called = self._ended = 0

    @property
    def called(self) -> bool:
        """Whether a tool was called, and that call is whole."""
        return self._ended > 0

    def whole(self) -> dict[str, Any]:
        """The choice, when the job is over."""
        read = collect(self._news(True))
        calls = [_described(call.name, call.arguments) for call in read.calls]
        content = read.content or (None if calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if read.reasoning:
            message["reasoning_content"] = read.reasoning
        if calls:
            message["tool_calls"] = calls
        return {"message": message, "logprobs": self._scores(always=True)}

    def opening(self) -> list[dict[str, Any]]:
        return [{"delta": {"role": "assistant", "content": ""}, "logprobs": None}]

    def closing(self) -> dict[str, Any]:
        return {"delta": {}, "logprobs": None}

    def news(self, over: bool) -> list[dict[str, Any]]:
        """What a stream tells of what is new; the log probabilities come with the first part of it."""
        deltas, scores = self._deltas(over), self._scores()
        if scores is not None and not deltas:
            deltas = [{"content": ""}]
        return [{"delta": delta, "logprobs": None if at else scores} for at, delta in enumerate(deltas)]

    def _scores(self, always: bool = False) -> dict[str, Any] | None:
        return self._logprobs.told(self._logprobs.of_chat, always) if self._logprobs is not None else None

    def _news(self, over: bool) -> list[Event]:
        """What was read since the last look."""
        text, cut = self._job.text, self._job.live.finish_reason != "stop"
        new, self._read = text[self._read :], len(text)
        found: list[Event] = []
        for event in [*self._reader.feed(new), *(self._reader.finish(cut) if over else [])]:
            self._called += isinstance(event, CallBegun)
            self._ended += isinstance(event, CallEnded)
            if self._one and self._called > 1 and not isinstance(event, (Thoughts, Content)):
                continue  # only one call was asked for
            found.append(event)
        return found

    def _deltas(self, over: bool) -> list[dict[str, Any]]:
        """A call comes as its name, then its arguments as they grow."""
        deltas: list[dict[str, Any]] = []
        at = self._called - 1
        for event in self._news(over):
            if isinstance(event, Thoughts):
                deltas.append({"reasoning_content": event.text})
            elif isinstance(event, (Content, CallBroken)):
                deltas.append({"content": event.text})
            elif isinstance(event, CallBegun):
                at += 1
                deltas.append({"tool_calls": [{"index": at, **_described(event.name, "")}]})
            elif isinstance(event, Arguments):
                deltas.append({"tool_calls": [{"index": at, "function": {"arguments": event.text}}]})
        return deltas


def _described(name: str, arguments: str) -> dict[str, Any]:
    # Nine letters or digits: the only form Mistral's templates accept.
    return {"id": uuid.uuid4().hex[:9], "type": "function", "function": {"name": name, "arguments": arguments}}


class TextForm:
    """echo: the prompt, where it is to stand before what was written."""

    kind, prefix = "text_completion", "cmpl"
    called = False

    def __init__(self, job: AnswerJob, echo: str = "", logprobs: Logprobs | None = None) -> None:
        self._job = job
        self._echo = echo
        self._logprobs = logprobs
        self._read = 0

    def whole(self) -> dict[str, Any]:
        return {"text": self._echo + self._job.text, "logprobs": self._scores(always=True)}

    def opening(self) -> list[dict[str, Any]]:
        """The prompt; where its tokens are scored it comes with them, once it was read."""
        return [{"text": self._echo, "logprobs": None}] if self._echo and self._logprobs is None else []

    def closing(self) -> dict[str, Any]:
        return {"text": "", "logprobs": None}

    def news(self, over: bool) -> list[dict[str, Any]]:
        text = self._job.text
        new, self._read = text[self._read :], len(text)
        scores = self._scores()
        if scores is not None and self._echo:
            new, self._echo = self._echo + new, ""
        return [{"text": new, "logprobs": scores}] if new or scores else []

    def _scores(self, always: bool = False) -> dict[str, Any] | None:
        return self._logprobs.told(self._logprobs.of_text, always) if self._logprobs is not None else None
