"""What a request to the API asks for, checked: messages, sampling, what the answer must look like, tools.

Every refusal is a `BadRequest` whose sentence says what is wrong. Knows no engine and writes no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request

from omnidraft.backends.grammar import Grammar, GrammarError, check_grammar, json_grammar
from omnidraft.config import DraftSettings, SamplingSettings
from omnidraft.errors import OmniDraftError
from ui.session import Session

MAX_BODY = 8 << 20
ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_TOOLS = 128
_UNSUPPORTED = ("functions", "function_call", "logprobs", "logit_bias", "audio", "modalities")
_SAMPLING = {"temperature": float, "top_p": float, "seed": int, "top_k": int, "min_p": float, "repeat_penalty": float}
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


class BadRequest(OmniDraftError):
    """The request asks for something that is not there or not understood."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Tools:
    """offered: OpenAI's descriptions; forced: the functions one of which must be called, none: the model decides."""

    offered: list[dict[str, Any]]
    forced: list[dict[str, Any]]
    one: bool

    @property
    def names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.offered]


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
    def of(cls, session: Session, body: dict[str, Any]) -> Asked:
        grammar, tools = _grammar(body), _tools(body)
        if grammar is not None and tools is not None:
            raise BadRequest("Tools cannot be offered together with response_format or grammar; send one of them.")
        return cls(
            model=str(body.get("model") or ""),
            messages=_messages(body.get("messages")),
            sampling=_sampling(session.settings.sampling, body),
            draft=_draft(session.settings.draft, body),
            grammar=grammar,
            tools=tools,
            stream=bool(body.get("stream")),
            usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )


async def read_body(request: Request) -> dict[str, Any]:
    """The request's JSON object."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise BadRequest("The request is too large.", 413)
    try:
        body = json.loads(data)
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
    if parts is None or not all(isinstance(p, dict) and p.get("type") == "text" for p in parts):
        raise BadRequest("A message's content must be text, or a list of text parts.")
    return "".join(str(p.get("text", "")) for p in parts)


def _sampling(settings: SamplingSettings, body: dict[str, Any]) -> SamplingSettings:
    values: dict[str, Any] = {}
    for name, kind in _SAMPLING.items():
        value = body.get(name)
        if value is not None:
            values[name] = float(value) if kind is float and isinstance(value, int) else value
    longest = body.get("max_completion_tokens") or body.get("max_tokens")
    if longest is not None:
        values["max_tokens"] = longest
    stop = body.get("stop")
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return replace(settings, **values)


def _draft(settings: DraftSettings, body: dict[str, Any]) -> DraftSettings:
    speculation = body.get("speculation")
    return settings if speculation is None else replace(settings, enabled=bool(speculation))


def _grammar(body: dict[str, Any]) -> Grammar | None:
    """What `response_format` or `grammar` (GBNF) asks for."""
    form, text = body.get("response_format"), body.get("grammar")
    kind = form.get("type") if isinstance(form, dict) else None
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
        if not isinstance(text, str):
            raise BadRequest("grammar must be a text in GBNF.")
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


def _tools(body: dict[str, Any]) -> Tools | None:
    """The tools offered; None without any, and where the choice is `none`."""
    given, choice = body.get("tools"), body.get("tool_choice")
    if given in (None, []):
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice asks for a tool, but no tools are given.")
        return None
    if not isinstance(given, list) or len(given) > MAX_TOOLS:
        raise BadRequest(f"tools must be a list of at most {MAX_TOOLS}.")
    functions = [_function(tool) for tool in given]
    if choice == "none":
        return None
    offered = [{"type": "function", "function": function} for function in functions]
    return Tools(offered, _forced(choice, functions), body.get("parallel_tool_calls") is False)


def _function(tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type", "function") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadRequest("Every tool must be a function with a name of letters, digits, dots, - and _, at most 64.")
    if not isinstance(function.get("parameters") or {}, dict):
        raise BadRequest(f"The parameters of {name} must be a JSON schema.")
    return function


def _forced(choice: Any, functions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if choice in (None, "auto"):
        return []
    if choice == "required":
        return list(functions)
    named = choice.get("function") if isinstance(choice, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    found = [function for function in functions if function["name"] == name]
    if not found:
        raise BadRequest("tool_choice must be none, auto, required or the name of one of the tools.")
    return found
