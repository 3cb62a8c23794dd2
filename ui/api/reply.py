"""An answer in OpenAI's format, whole or as a stream of events, with calls of tools where they were offered."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from omnidraft.app.answer_job import AnswerJob
from omnidraft.backends.tool_calls import Call, CallReader, ToolFormat
from omnidraft.decoding.events import Event, Finished, Token
from ui.api.tools import Tools

REASONS = {"stop": "stop", "stop_string": "stop", "length": "length", "context": "length", "cancelled": "stop"}


class Heard:
    """What an answer says, with the markers around its calls even where these are control tokens without text.

    shown: control tokens' ids and texts. Give `watch` to the job.
    """

    def __init__(self, shown: dict[int, str]) -> None:
        self._shown = shown
        self._parts: list[str] = []

    def watch(self, job: AnswerJob, event: Event) -> None:
        if isinstance(event, (Token, Finished)) and event.text:
            self._parts.append(event.text)
        if isinstance(event, Token) and event.id in self._shown:
            self._parts.append(self._shown[event.id])

    @property
    def text(self) -> str:
        return "".join(self._parts)


class Reply:
    """One job's answer on its way out. heard and tools are None where no tools were offered."""

    def __init__(
        self, job: AnswerJob, name: str, heard: Heard | None, tools: Tools | None, form: ToolFormat | None
    ) -> None:
        self.job = job
        self._name = name
        self._text: Callable[[], str] = (lambda: job.text) if heard is None else (lambda: heard.text)
        self._reader = CallReader(form, tools.names) if tools is not None and form is not None else None
        self._one = tools is not None and tools.one
        self._read = 0
        self._called = 0

    def completion(self) -> dict[str, Any]:
        """The whole answer, when the job is over."""
        parts = self._news(True)
        calls = [_described(part) for part in parts if isinstance(part, Call)]
        text = "".join(part for part in parts if isinstance(part, str))
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason()}
        head = _head(self._name, "chat.completion")
        return {**head, "choices": [choice], "usage": _usage(self.job), "omnidraft": _statistics(self.job)}

    async def stream(self, with_usage: bool) -> AsyncIterator[str]:
        """Server-sent events; the job is stopped when nobody listens any more."""
        job, head, seen = self.job, _head(self._name, "chat.completion.chunk"), -1
        try:
            yield _event(head, {"role": "assistant", "content": ""}, None)
            while True:
                over = job.over
                for delta in self._deltas(over):
                    yield _event(head, delta, None)
                if over:
                    break
                seen = await run_in_threadpool(job.wait, seen, 1.0)
            if job.error:
                yield f"data: {json.dumps({'error': {'message': job.error, 'type': 'server_error'}})}\n\n"
            else:
                yield _event({**head, "omnidraft": _statistics(job)}, {}, self._reason())
                if with_usage:
                    yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(job)})}\n\n"
            yield "data: [DONE]\n\n"
        finally:
            job.stop()  # also when the client went away

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
        """What the news are in a stream: a call comes as its name, then its arguments."""
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

    def _reason(self) -> str:
        reason = REASONS.get(self.job.live.finish_reason or "", "stop")
        return "tool_calls" if self._called and reason == "stop" else reason


def _described(call: Call) -> dict[str, Any]:
    # Nine letters or digits: the only form Mistral's templates accept.
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": uuid.uuid4().hex[:9], "type": "function", "function": function}


def _head(name: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "object": kind, "created": int(time.time()), "model": name}


def _event(head: dict[str, Any], delta: dict[str, Any], reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return f"data: {json.dumps({**head, 'choices': [choice]}, ensure_ascii=False)}\n\n"


def _usage(job: AnswerJob) -> dict[str, Any]:
    s = job.live.statistics
    return {
        "prompt_tokens": s.prompt_tokens,
        "completion_tokens": s.tokens,
        "total_tokens": s.prompt_tokens + s.tokens,
        "prompt_tokens_details": {"cached_tokens": s.reused_tokens},
        "completion_tokens_details": {"accepted_prediction_tokens": s.accepted,
                                      "rejected_prediction_tokens": s.proposed - s.accepted},
    }  # fmt: skip


def _statistics(job: AnswerJob) -> dict[str, Any]:
    """What drafting did, beside what OpenAI's format can say."""
    s = job.live.statistics
    return {
        "drafted": s.drafted,
        "proposed": s.proposed,
        "accepted": s.accepted,
        "acceptance_rate": s.acceptance_rate,
        "copied": s.copied,
        "copied_accepted": s.copied_accepted,
        "drafter_acceptance": s.drafter_acceptance,
        "tokens_per_pass": s.tokens_per_pass,
        "tokens_per_second": s.tokens_per_second,
        "seed": job.live.seed,
        "draft_disabled_reason": job.live.disabled_reason,
        "notices": job.live.notices,
    }
