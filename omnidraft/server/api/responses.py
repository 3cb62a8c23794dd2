"""OpenAI's Responses API: a request as the chat completion that asks the same, and the answer in its format, whole or
as its typed events: items made of a chat's deltas. Nothing of them is stored."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from omnidraft.server.api.body import Given
from omnidraft.server.api.messages import Message, Messages, Tools
from omnidraft.server.api.reply import Reply, looks
from omnidraft.server.api.reply import statistics as drafted
from omnidraft.server.api.request import EFFORT, Conversation, Format, Length, form_of


def _messages(given: Any) -> Any:
    """A text, or items: a call joins what the assistant said before it."""
    if isinstance(given, str) and given:
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise ValueError("must be a text, or a list with at least one item")
    found: list[Any] = []
    for item in given:
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "message":
            found.append({**item, "tool_calls": []})
        elif kind == "function_call":
            if not found or found[-1].get("role") != "assistant":
                found.append({"role": "assistant", "tool_calls": []})
            found[-1]["tool_calls"].append({"id": item.get("call_id"), "function": item})
        elif kind == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind != "reasoning":  # what a model thought is left out, as templates leave it out
            raise ValueError("must be a list of messages, function_calls and function_call_outputs")
    return found


def _nothing(given: Any) -> Any:
    """Answers are not kept here, so none can be gone on with, or written with nobody there."""
    if given:
        raise ValueError("is not supported here: responses are not stored; send the whole input")


_Stored = Annotated[Any, AfterValidator(_nothing)]


class _Reasoning(Given):
    effort: str | None = None


class _TextOptions(Given):
    format: Format | None = None


class Responses(Conversation):
    """What a request may hold."""

    input: Annotated[Messages, BeforeValidator(_messages)]
    instructions: str = ""
    max_output_tokens: Length | None = None
    reasoning: _Reasoning = _Reasoning()
    text: _TextOptions = _TextOptions()
    previous_response_id: _Stored = None
    conversation: _Stored = None
    background: _Stored = None
    prompt: _Stored = None
    include: Any = None
    truncation: Any = None
    stream_options: Any = None

    def told(self) -> dict[str, Any]:
        system = Message.model_validate({"role": "system", "content": self.instructions})
        messages = [system, *self.input] if self.instructions else self.input
        return {
            **self.of_messages(messages, **{EFFORT: self.reasoning.effort}),
            "longest": self.max_output_tokens,
            "form": form_of("text.format", self.text.format, self.grammar),
        }


# The answer.

# An item of text and the part of it that grows, by the name of a chat's delta.
_TEXTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reasoning_content": ({"type": "reasoning", "summary": []}, {"type": "reasoning_text", "text": ""}),
    "content": (
        {"type": "message", "role": "assistant"},
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
}
_IDS = {"reasoning": "rs", "message": "msg", "function_call": "fc"}  # what ids of items begin with


def whole(replies: Sequence[Reply]) -> dict[str, Any]:
    """The response, when its job is over."""
    (reply,) = replies
    writer = _Writer(reply)
    list(writer.news(over=True))
    return list(writer.closing())[-1]["response"]


async def stream(reply: Reply, *_: Any) -> AsyncIterator[str]:
    """Server-sent events; the job is stopped when nobody listens any more."""
    writer = _Writer(reply)
    try:
        for event in writer.opening():
            yield _line(event)
        async for over in looks(reply.job):
            for event in writer.news(over):
                yield _line(event)
        for event in writer.closing():
            yield _line(event)
    finally:
        reply.job.stop()


def _line(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _told(tools: Tools) -> dict[str, Any]:
    """The tools as a response repeats them."""
    names = [function["name"] for function in tools.forced]
    choice: Any = "required" if names else "auto"
    if len(names) == 1 < len(tools.offered):
        choice = {"type": "function", "name": names[0]}
    told = [{"type": "function", **tool["function"]} for tool in tools.offered]
    return {"tools": told, "tool_choice": choice, "parallel_tool_calls": not tools.one}


class _Writer:
    """The items so far, of which the last may still grow, and the events that tell of them."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._id, self._created = f"resp_{uuid.uuid4().hex}", int(time.time())
        self._items: list[dict[str, Any]] = []
        self._growing = ""  # what the last item grows by
        self._number = -1
        self._tools = _told(reply.place.asked.tools)

    def opening(self) -> Iterator[dict[str, Any]]:
        for kind in ("created", "in_progress"):
            yield self._event(kind, response=self.response("in_progress"))

    def news(self, over: bool) -> Iterator[dict[str, Any]]:
        for told in self._reply.form.news(over):
            for call in told["delta"].get("tool_calls", ()):
                yield from self._call(call["id"], call["function"])
            for name in _TEXTS:
                if text := told["delta"].get(name):
                    yield from self._text(name, text)

    def closing(self) -> Iterator[dict[str, Any]]:
        """The job is over."""
        job = self._reply.job
        cut = job.live.finish_reason in ("length", "context")
        status = "failed" if job.error else "incomplete" if cut else "completed"
        yield from self._end("completed" if status == "completed" else "incomplete")
        yield self._event(status, response=self.response(status))

    def response(self, status: str) -> dict[str, Any]:
        job, statistics = self._reply.job, self._reply.job.live.statistics
        error = {"code": "server_error", "message": job.error} if status == "failed" else None
        return {
            "id": self._id, "object": "response", "created_at": self._created, "status": status, "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self._reply.name, "output": list(self._items), "store": False, "previous_response_id": None,
            **self._tools,
            **({"omnidraft": drafted([self._reply])} if status != "in_progress" else {}),
            "usage": {
                "input_tokens": statistics.prompt_tokens, "output_tokens": statistics.tokens,
                "total_tokens": statistics.prompt_tokens + statistics.tokens,
                "input_tokens_details": {"cached_tokens": statistics.reused_tokens},
                "output_tokens_details": {"reasoning_tokens": 0},
            } if status != "in_progress" else None,
        }  # fmt: skip

    def _text(self, name: str, text: str) -> Iterator[dict[str, Any]]:
        if self._growing != name:
            item, part = _TEXTS[name]
            yield from self._begin(name, {**item, "content": []})
            yield self._of_item("content_part.added", content_index=0, part=part)
            self._items[-1]["content"].append(dict(part))
        self._items[-1]["content"][0]["text"] += text
        yield self._of_text("delta", delta=text)

    def _call(self, id: str, function: dict[str, str]) -> Iterator[dict[str, Any]]:
        yield from self._begin("call", {"type": "function_call", "call_id": id, **function, "arguments": ""})
        self._items[-1]["arguments"] = given = function["arguments"]
        if given:
            yield self._of_item("function_call_arguments.delta", delta=given)

    def _begin(self, growing: str, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._end("completed")
        self._growing = growing
        self._items.append({**item, "id": f"{_IDS[item['type']]}_{uuid.uuid4().hex}", "status": "in_progress"})
        yield self._event("output_item.added", output_index=len(self._items) - 1, item=dict(self._items[-1]))

    def _end(self, status: str) -> Iterator[dict[str, Any]]:
        if not self._growing:
            return
        item = self._items[-1]
        self._growing, item["status"] = "", status
        if item["type"] == "function_call":
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield self._of_item("function_call_arguments.done", **told)
        else:
            (part,) = item["content"]
            yield self._of_text("done", text=part["text"])
            yield self._of_item("content_part.done", content_index=0, part=part)
        yield self._event("output_item.done", output_index=len(self._items) - 1, item=item)

    def _of_text(self, kind: str, **more: Any) -> dict[str, Any]:
        (part,) = self._items[-1]["content"]
        more |= {"logprobs": []} if "logprobs" in part else {}
        return self._of_item(f"{part['type']}.{kind}", content_index=0, **more)

    def _of_item(self, kind: str, **more: Any) -> dict[str, Any]:
        return self._event(kind, item_id=self._items[-1]["id"], output_index=len(self._items) - 1, **more)

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": f"response.{kind}", "sequence_number": self._number, **more}
