"""The messages of a request for a chat completion, checked. One that ends with the assistant's is gone on with."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.pictures import Picture, read_picture
from omnidraft.prompting.grammar import unkept
from omnidraft.prompting.prompt import mark
from omnidraft.server.api.errors import BadRequest, field

ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_of(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message.")
    found = [_numbered(number, message) for number, message in enumerate(given, 1)]
    if found[-1]["role"] == "assistant" and (len(found) == 1 or "tool_calls" in found[-1]):
        raise BadRequest("There is nothing to answer: a call waits for its tool's message, a text for a question.")
    return found


def _numbered(number: int, message: Any) -> dict[str, Any]:
    try:
        return _message(message)
    except BadRequest as error:
        raise BadRequest(f"Message {number}: {error}") from None


def _message(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or (role := message.get("role")) not in ROLES:
        raise BadRequest(f"Every message needs one of the roles {', '.join(ROLES)}.")
    calls = message.get("tool_calls") if role == "assistant" else None
    content = message.get("content")
    found: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        **({"content": ""} if content is None and calls else _said(content, role)),
    }
    if calls:
        found["tool_calls"] = _calls(calls)
    if role == "assistant" and (thoughts := field(message, "reasoning_content", str)):
        found["reasoning_content"] = thoughts
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str):
            raise BadRequest("A tool's message needs the tool_call_id of the call it answers.")
        found["tool_call_id"] = message["tool_call_id"]
        if isinstance(message.get("name"), str):
            found["name"] = message["name"]
    return found


def _calls(given: Any) -> list[dict[str, Any]]:
    found = []
    calls: list[Any] = given if isinstance(given, list) else [None]
    for call in calls:
        try:
            function = call["function"]
            arguments = json.loads(function["arguments"] or "{}")
            if not isinstance(function["name"], str) or not isinstance(arguments, dict):
                raise TypeError
        except (TypeError, KeyError, ValueError, RecursionError):
            raise BadRequest("Every tool call needs a function with its name and its arguments as JSON.") from None
        function = {"name": function["name"], "arguments": function["arguments"] or "{}"}
        found.append({"id": str(call.get("id") or ""), "type": "function", "function": function})
    return found


def _said(content: Any, role: str) -> dict[str, Any]:
    """A message's content, and the pictures whose marks stand in it."""
    if isinstance(content, str):
        return {"content": content}
    pictures: list[Picture] = []
    texts: list[str] = []
    for part in content if isinstance(content, list) else [None]:
        fields = part if isinstance(part, dict) else {}
        if fields.get("type") == "text" and isinstance(text := fields.get("text", ""), str):
            texts.append(text)
        elif fields.get("type") == "image_url" and role == "user":
            pictures.append(_picture(fields.get("image_url")))
            texts.append(f"{mark(pictures[-1])}\n")
        else:
            raise BadRequest(
                "A message's content must be text, or a list of text parts and, in a user's, image_url parts."
            )
    return {"content": "".join(texts), **({"pictures": pictures} if pictures else {})}


def _picture(given: Any) -> Picture:
    address = given.get("url") if isinstance(given, dict) else given
    if not isinstance(address, str) or not address.startswith("data:"):
        raise BadRequest("image_url must be a data: address; nothing is fetched from elsewhere.")
    head, comma, data = address.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError
        return read_picture(base64.b64decode("".join(data.split()), validate=True))
    except ValueError:
        raise BadRequest("image_url must be a data: address in base64, such as data:image/png;base64,...") from None


# The tools that a request to the API offers, checked. What a model makes of them is read by `formats`.


MAX_TOOLS = 128
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tools:
    """offered: OpenAI's descriptions; forced: the functions one of which must be called, none: the model decides;
    one: at most one call; notes: what of the schemas of forced functions is not held."""

    offered: list[dict[str, Any]]
    forced: list[dict[str, Any]]
    one: bool
    notes: tuple[str, ...] = ()

    @property
    def schemas(self) -> dict[str, Any]:
        """The schemas of their parameters, by name."""
        return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.offered}


def tools_of(body: dict[str, Any]) -> Tools | None:
    """The tools offered; None without any, and where the choice is `none`."""
    given, choice = field(body, "tools", list), field(body, "tool_choice", str, dict)
    parallel = field(body, "parallel_tool_calls", bool)
    if not given:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice asks for a tool, but no tools are given.")
        return None
    if len(given) > MAX_TOOLS:
        raise BadRequest(f"tools must be a list of at most {MAX_TOOLS}.")
    functions = [_function(tool) for tool in given]
    if choice == "none":
        return None
    offered = [{"type": "function", "function": function} for function in functions]
    forced = _forced(choice, functions)
    told = (_schema_notes(function, function in forced) for function in functions)
    return Tools(offered, forced, parallel is False, tuple(note for notes in told for note in notes))


def _schema_notes(function: dict[str, Any], forced: bool) -> tuple[str, ...]:
    """What there is to say about a function's schema that cannot be held whole, where it is to be."""
    strict, schema = field(function, "strict", bool), function.get("parameters")
    return notes(function["name"], {"type": "object", **schema}, bool(strict)) if schema and (forced or strict) else ()


_NAMED = 5  # places that a sentence names


def notes(what: str, schema: Any, strict: bool) -> tuple[str, ...]:
    """What there is to say about a schema that cannot be held whole; BadRequest if it must be."""
    beyond = unkept(schema) if schema is not None else []
    if not beyond:
        return ()
    named = f"{', '.join(beyond[:_NAMED])}{' and more' if len(beyond) > _NAMED else ''}"
    if strict:
        raise BadRequest(f"The schema of {what} cannot be enforced: {named}. Without strict, the answer is checked.")
    return (f"Not enforced of the schema of {what}, only checked in the end: {named}.",)


def _function(tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type", "function") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadRequest("Every tool must be a function with a name of letters, digits, dots, - and _, at most 64.")
    if not isinstance(function.get("parameters") or {}, dict):
        raise BadRequest(f"The parameters of {name} must be a JSON schema.")
    field(function, "description", str)
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
