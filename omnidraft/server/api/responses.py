"""OpenAI's Responses API: a request as the chat completion that asks the same, and the answer in its format, whole or
as its typed events: items made of a chat's deltas. Nothing of them is stored."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from omnidraft.app.session import Session
from omnidraft.server.api.errors import BadRequest, field
from omnidraft.server.api.errors import whole as whole_number
from omnidraft.server.api.forms import ChatForm
from omnidraft.server.api.messages import Tools
from omnidraft.server.api.reply import Reply, looks
from omnidraft.server.api.reply import statistics as drafted
from omnidraft.server.api.request import EFFORT, CompletionRequest, refuse_unknown
from omnidraft.settings.config import MOST_TOKENS

# Refused where they say anything: answers are not kept here, so none can be gone on with, or written with nobody there.
_STORED = ("previous_response_id", "conversation", "background", "prompt")
_SAME = (
    "model", "temperature", "top_p", "seed", "stream", "parallel_tool_calls", "speculation", "grammar", "stop",
    "chat_template_kwargs", "enable_thinking", "logit_bias",
)  # fmt: skip
_KNOWN = frozenset((
    *_SAME, *_STORED, "input", "instructions", "max_output_tokens", "reasoning", "text", "tools", "tool_choice",
    "include", "truncation", "stream_options",
))  # fmt: skip
_PARTS = {"input_text": "text", "output_text": "text", "text": "text"}


def read(session: Session, body: dict[str, Any]) -> CompletionRequest:
    """What a request with this body asks for."""
    return CompletionRequest.chat(session, chat_body(body))


def chat_body(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a chat completion. BadRequest in one sentence for what is not there or not understood."""
    for name in _STORED:
        if body.get(name):
            raise BadRequest(f"{name} is not supported here: responses are not stored; send the whole input.")
    refuse_unknown(body, _KNOWN)
    reasoning = field(body, "reasoning", dict) or {}
    chat = {name: body[name] for name in _SAME if body.get(name) is not None}
    if effort := field({EFFORT: reasoning.get("effort")}, EFFORT, str):
        chat["chat_template_kwargs"] = {**(field(body, "chat_template_kwargs", dict) or {}), EFFORT: effort}
    given = {
        "max_tokens": whole_number(body, "max_output_tokens", 1, MOST_TOKENS),
        "response_format": _form(body), "tools": _tools(body), "tool_choice": _choice(body),
    }  # fmt: skip
    return {**chat, **{name: value for name, value in given.items() if value is not None}, "messages": _messages(body)}


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = field(body, "input", str, list)
    if not given:
        raise BadRequest("input must be a text, or a list with at least one item.")
    instructions = field(body, "instructions", str)
    found = [{"role": "system", "content": instructions}] if instructions else []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        _add(found, item)
    return found


def _add(found: list[dict[str, Any]], item: Any) -> None:
    """One item of the input; a call joins what the assistant said before it."""
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind == "message":
        found.append({"role": item.get("role"), "content": _content(item.get("content"))})
    elif kind == "function_call":
        if not found or found[-1]["role"] != "assistant":
            found.append({"role": "assistant", "content": None})
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        found[-1].setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": function})
    elif kind == "function_call_output":
        found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": _content(item.get("output"))})
    elif kind != "reasoning":  # what a model thought is left out, as templates leave it out
        raise BadRequest("Every item of input must be a message, a function_call, or a function_call_output.")


def _content(content: Any) -> Any:
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    return {**part, "type": _PARTS.get(str(part.get("type")), part.get("type"))}


def _form(body: dict[str, Any]) -> dict[str, Any] | None:
    form = field(field(body, "text", dict) or {}, "format", dict)
    kind = form.get("type") if form else "text"
    if kind not in ("text", "json_object", "json_schema"):
        raise BadRequest("text.format must be of type text, json_object or json_schema.")
    if form is None or kind != "json_schema":
        return form
    if not isinstance(form.get("schema"), dict):
        raise BadRequest("text.format of type json_schema needs a schema, an object.")
    return {"type": kind, "json_schema": form}


def _tools(body: dict[str, Any]) -> list[Any] | None:
    tools = field(body, "tools", list) or []
    if any(not isinstance(tool, dict) or tool.get("type") != "function" for tool in tools):
        raise BadRequest("Every tool must be of type function; there are no others here.")
    return [{"type": "function", "function": _without_type(tool)} for tool in tools] or None


def _choice(body: dict[str, Any]) -> Any:
    choice = field(body, "tool_choice", str, dict)
    return {"type": "function", "function": _without_type(choice)} if isinstance(choice, dict) else choice


def _without_type(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "type"}


# The answer.


_DONE = {"text": "output_text", "reasoning": "reasoning_text"}


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


def _told(tools: Tools | None) -> dict[str, Any]:
    """The tools as a response repeats them."""
    offered = tools.offered if tools is not None else []
    names = [function["name"] for function in tools.forced] if tools is not None else []
    choice: Any = "required" if names else "auto"
    if len(names) == 1 < len(offered):
        choice = {"type": "function", "name": names[0]}
    told = [{"type": "function", **tool["function"]} for tool in offered]
    return {"tools": told, "tool_choice": choice, "parallel_tool_calls": tools is None or not tools.one}


class _Writer:
    """The items so far, of which the last may still grow, and the events that tell of them."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._id, self._created = f"resp_{uuid.uuid4().hex}", int(time.time())
        self._items: list[dict[str, Any]] = []
        self._kind = ""  # of the item that grows
        self._number = -1
        self._tools = _told(reply.form.tools if isinstance(reply.form, ChatForm) else None)

    def opening(self) -> Iterator[dict[str, Any]]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self.response("in_progress"))

    def news(self, over: bool) -> Iterator[dict[str, Any]]:
        for part in self._reply.form.news(over):
            yield from self._grow(part["delta"])

    def closing(self) -> Iterator[dict[str, Any]]:
        status = self._ended()
        yield from self._end_item("completed" if status == "completed" else "incomplete")
        yield self._event(f"response.{status}", response=self.response(status))

    def _ended(self) -> str:
        """The status that its job ended with."""
        job = self._reply.job
        cut = job.live.finish_reason in ("length", "context")
        return "failed" if job.error else "incomplete" if cut else "completed"

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

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **more}

    def _grow(self, delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for call in delta.get("tool_calls", ()):
            yield from self._call(call["id"], call["function"])
        for kind, name in (("reasoning", "reasoning_content"), ("text", "content")):
            if delta.get(name):
                if self._kind != kind:
                    yield from self._begin_text(kind)
                yield from self._add(kind, delta[name])

    def _call(self, id: str, function: dict[str, str]) -> Iterator[dict[str, Any]]:
        item = {"type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "call_id": id, **function, "arguments": ""}
        yield from self._begin("arguments", item)
        self._items[-1]["arguments"] = given = function["arguments"]
        if given:
            yield self._event("response.function_call_arguments.delta", **self._place(), delta=given)

    def _begin_text(self, kind: str) -> Iterator[dict[str, Any]]:
        prefix, item = ("rs", {"type": "reasoning", "summary": []})
        if kind == "text":
            prefix, item = "msg", {"type": "message", "role": "assistant"}
        yield from self._begin(kind, {**item, "id": f"{prefix}_{uuid.uuid4().hex}", "content": []})
        part = {"type": _DONE[kind], "text": "", **({"annotations": [], "logprobs": []} if kind == "text" else {})}
        yield self._event("response.content_part.added", **self._place(), content_index=0, part=dict(part))
        self._items[-1]["content"].append(part)

    def _begin(self, kind: str, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._end_item("completed")
        self._kind = kind
        self._items.append({**item, "status": "in_progress"})
        yield self._event("response.output_item.added", output_index=len(self._items) - 1, item=dict(self._items[-1]))

    def _add(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        self._items[-1]["content"][0]["text"] += text
        more: dict[str, Any] = {"logprobs": []} if kind == "text" else {}
        yield self._event(f"response.{_DONE[kind]}.delta", **self._place(), content_index=0, delta=text, **more)

    def _end_item(self, status: str) -> Iterator[dict[str, Any]]:
        if not self._kind:
            return
        item, kind, place = self._items[-1], self._kind, self._place()
        self._kind, item["status"] = "", status
        if kind == "arguments":
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **place, **told)
        else:
            part = item["content"][0]
            more: dict[str, Any] = {"logprobs": []} if kind == "text" else {}
            yield self._event(f"response.{_DONE[kind]}.done", **place, content_index=0, text=part["text"], **more)
            yield self._event("response.content_part.done", **place, content_index=0, part=part)
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
