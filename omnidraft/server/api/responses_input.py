"""Requests for OpenAI's Responses API, as the chat completion that asks the same. Nothing of them is stored."""

from __future__ import annotations

import json
from typing import Any

from omnidraft.app.session import Session
from omnidraft.server.api.errors import BadRequest, field, json_body, whole
from omnidraft.server.api.request import EFFORT, CompletionRequest
from omnidraft.settings.config import MOST_TOKENS

# Refused where they say anything: answers are not kept here, so none can be gone on with, or written with nobody there.
_STORED = ("previous_response_id", "conversation", "background", "prompt")
_SAME = (
    "model", "temperature", "top_p", "seed", "stream", "parallel_tool_calls", "speculation", "grammar", "stop",
    "chat_template_kwargs", "enable_thinking", "logit_bias",
)  # fmt: skip
_PARTS = {"input_text": "text", "output_text": "text", "text": "text"}


def read(session: Session, data: bytes) -> CompletionRequest:
    """What a request with this body asks for."""
    return CompletionRequest.chat(session, json.dumps(chat_body(json_body(data))).encode())


def chat_body(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a chat completion. BadRequest in one sentence for what is not there or not understood."""
    for name in _STORED:
        if body.get(name):
            raise BadRequest(f"{name} is not supported here: responses are not stored; send the whole input.")
    reasoning = field(body, "reasoning", dict) or {}
    chat = {name: body[name] for name in _SAME if body.get(name) is not None}
    if effort := field({EFFORT: reasoning.get("effort")}, EFFORT, str):
        chat["chat_template_kwargs"] = {**(field(body, "chat_template_kwargs", dict) or {}), EFFORT: effort}
    given = {
        "max_tokens": whole(body, "max_output_tokens", 1, MOST_TOKENS),
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
