"""What a request to the API asks for, checked: messages, sampling, what the answer must look like.

Every refusal is a `BadRequest` whose sentence says what is wrong. Tools are api_tools' business.
Knows no engine and writes no answer.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request

from omnidraft.app.session import Session
from omnidraft.backends.grammar import Grammar, GrammarError, check_grammar, json_grammar
from omnidraft.chats.records import json_value
from omnidraft.config import DraftSettings, SamplingSettings
from ui.api.fields import BadRequest, field
from ui.api.tools import Tools, tools_of

MAX_BODY = 8 << 20
ROLES = ("system", "developer", "user", "assistant", "tool")
# Refused unless they ask for nothing: 0 is equal to False.
_UNSUPPORTED = (
    "functions",
    "function_call",
    "logprobs",
    "logit_bias",
    "frequency_penalty",
    "presence_penalty",
    "audio",
    "modalities",
)
_SAMPLING = ("temperature", "top_p", "seed", "top_k", "min_p", "repeat_penalty")
_LONGEST = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that makes sense."""

    model: str
    messages: list[dict[str, Any]]
    sampling: SamplingSettings
    draft: DraftSettings
    grammar: Grammar | None
    tools: Tools | None
    stream: bool
    usage: bool  # whether a stream ends with the usage

    @classmethod
    def of_body(cls, session: Session, data: bytes) -> Asked:
        """What a request with this body asks for."""
        return cls.of(session, json_body(data))

    @classmethod
    def of(cls, session: Session, body: dict[str, Any]) -> Asked:
        grammar, tools = _grammar(body), tools_of(body)
        if grammar is not None and tools is not None:
            raise BadRequest("Tools cannot be offered together with response_format or grammar; send one of them.")
        options = field(body, "stream_options", dict) or {}
        return cls(
            model=field(body, "model", str) or "",
            messages=_messages(body.get("messages")),
            sampling=_sampling(session.settings.sampling, body),
            draft=_draft(session.settings.draft, body),
            grammar=grammar,
            tools=tools,
            stream=bool(field(body, "stream", bool)),
            usage=bool(field(options, "include_usage", bool)),
        )


async def read_body(request: Request) -> bytes:
    """The request's body, if it is not too large."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise BadRequest("The request is too large.", 413)
    return bytes(data)


def json_body(data: bytes) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        # Half an emoji, which JSON can say and UTF-8 cannot, becomes the mark for that here.
        body = json_value(json.loads(data, parse_constant=_finite, parse_float=_finite))
    except (ValueError, RecursionError):
        raise BadRequest("The request is not JSON.") from None
    if not isinstance(body, dict):
        raise BadRequest("The request is not a JSON object.")
    if body.get("n") not in (None, 1):
        raise BadRequest("n must be 1.")
    for name in _UNSUPPORTED:
        if body.get(name) not in (None, False, [], {}, ["text"]):
            raise BadRequest(f"{name} is not supported by this server.")
    return body


def _finite(text: str) -> float:
    """A number; JSON has no infinite ones, though Python reads them."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _messages(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message.")
    found = [_message(message) for message in given]
    if found[-1]["role"] not in ("user", "tool"):
        raise BadRequest("The last message must be the user's or a tool's.")
    return found


def _message(message: Any) -> dict[str, Any]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise BadRequest(f"Every message needs one of the roles {', '.join(ROLES)}.")
    calls = message.get("tool_calls") if role == "assistant" else None
    content = message.get("content")
    found: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": "" if content is None and calls else _text(content),
    }
    if calls:
        found["tool_calls"] = _calls(calls)
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str):
            raise BadRequest("A tool's message needs the tool_call_id of the call it answers.")
        found["tool_call_id"] = message["tool_call_id"]
        if isinstance(message.get("name"), str):
            found["name"] = message["name"]
    return found


def _calls(given: Any) -> list[dict[str, Any]]:
    found = []
    for call in given if isinstance(given, list) else [None]:
        function = call.get("function") if isinstance(call, dict) else None
        try:
            arguments = json.loads(function["arguments"] or "{}")
            if not isinstance(function["name"], str) or not isinstance(arguments, dict):
                raise TypeError
        except (TypeError, KeyError, ValueError, RecursionError):
            raise BadRequest("Every tool call needs a function with its name and its arguments as JSON.") from None
        function = {"name": function["name"], "arguments": function["arguments"] or "{}"}
        found.append({"id": str(call.get("id") or ""), "type": "function", "function": function})
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else None
    if parts is None or not all(map(_is_text_part, parts)):
        raise BadRequest("A message's content must be text, or a list of text parts.")
    return "".join(part.get("text", "") for part in parts)


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text", ""), str)


def _sampling(settings: SamplingSettings, body: dict[str, Any]) -> SamplingSettings:
    """The settings' own rules refuse what is of another type."""
    values = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
    longest = [body[name] for name in _LONGEST if body.get(name) is not None]
    if longest:
        values["max_tokens"] = longest[0]
    stop = field(body, "stop", str, list)
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return replace(settings, **values)


def _draft(settings: DraftSettings, body: dict[str, Any]) -> DraftSettings:
    speculation = field(body, "speculation", bool)
    return settings if speculation is None else replace(settings, enabled=speculation)


def _grammar(body: dict[str, Any]) -> Grammar | None:
    """What `response_format` or `grammar` (GBNF) asks for."""
    form, text = field(body, "response_format", dict), field(body, "grammar", str)
    kind = form.get("type") if form is not None else None
    if form is not None and kind not in ("text", "json_object", "json_schema"):
        raise BadRequest("response_format must be of type text, json_object or json_schema.")
    constrained = kind in ("json_object", "json_schema")
    if text is not None and constrained:
        raise BadRequest("response_format and grammar cannot be used together.")
    try:
        if constrained:
            return Grammar(json_grammar(_schema(form) if kind == "json_schema" else None))
        if text is None:
            return None
        check_grammar(text)
        return Grammar(text)
    except GrammarError as error:
        raise BadRequest(str(error)) from None


def _schema(form: dict[str, Any]) -> dict[str, Any]:
    described = form.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if not isinstance(schema, dict):
        raise BadRequest("response_format of type json_schema needs json_schema.schema, an object.")
    return schema
