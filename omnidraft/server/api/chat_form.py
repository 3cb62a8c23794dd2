"""One choice of a chat completion: its message or the deltas of it, with calls of tools where they were offered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.text_with_calls import TextWithCalls
from omnidraft.backends.prompting.tool_calls import Call, CallReader, ToolFormat
from omnidraft.server.api.logprobs import Logprobs
from omnidraft.server.api.tools import Tools


class ChatForm:
    """with_calls, tools and form are None where no tools were offered, logprobs where nobody asked for any."""

    kind, prefix = "chat.completion", "chatcmpl"

    def __init__(
        self,
        job: AnswerJob,
        with_calls: TextWithCalls | None = None,
        tools: Tools | None = None,
        form: ToolFormat | None = None,
        logprobs: Logprobs | None = None,
    ) -> None:
        self._text: Callable[[], str] = (lambda: job.text) if with_calls is None else (lambda: with_calls.text)
        self._reader = CallReader(form, tools.names) if tools is not None and form is not None else None
        self._one = tools is not None and tools.one
        self._logprobs = logprobs
        self._read = 0
        self._called = 0

    @property
    def called(self) -> bool:
        """Whether a tool was called."""
        return self._called > 0

    def whole(self) -> dict[str, Any]:
        """The choice, when the job is over."""
        parts = self._news(True)
        calls = [_described(part) for part in parts if isinstance(part, Call)]
        text = "".join(part for part in parts if isinstance(part, str))
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
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
        if self._logprobs is None:
            return None
        found = self._logprobs.news()
        return self._logprobs.of_chat(found) if found or always else None

    def _news(self, over: bool) -> list[str | Call]:
        """Text and calls since the last look."""
        text = self._text()
        new, self._read = text[self._read :], len(text)
        if self._reader is None:
            return [new] if new else []
        found: list[str | Call] = []
        for part in [*self._reader.feed(new), *(self._reader.finish() if over else [])]:
            if isinstance(part, Call):
                if self._one and self._called:
                    continue
                self._called += 1
            found.append(part)
        return found

    def _deltas(self, over: bool) -> list[dict[str, Any]]:
        """A call comes as its name, then its arguments."""
        deltas: list[dict[str, Any]] = []
        first = self._called
        for part in self._news(over):
            if isinstance(part, str):
                deltas.append({"content": part})
                continue
            call = _described(part)
            arguments, call["function"]["arguments"] = call["function"]["arguments"], ""
            deltas.append({"tool_calls": [{"index": first, **call}]})
            deltas.append({"tool_calls": [{"index": first, "function": {"arguments": arguments}}]})
            first += 1
        return deltas


def _described(call: Call) -> dict[str, Any]:
    # Nine letters or digits: the only form Mistral's templates accept.
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": uuid.uuid4().hex[:9], "type": "function", "function": function}
