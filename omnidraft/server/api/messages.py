"""The messages of a request for a chat completion, checked. One that ends with the assistant's is gone on with."""

from __future__ import annotations

import base64
import json
from typing import Any

from omnidraft.backends.pictures import Picture, read_picture
from omnidraft.backends.prompting.picture_marks import mark
from omnidraft.server.api.fields import BadRequest, field

ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_of(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message.")
    found = [_message(message) for message in given]
    if found[-1]["role"] == "assistant" and (len(found) == 1 or "tool_calls" in found[-1]):
        raise BadRequest("There is nothing to answer: a call waits for its tool's message, a text for a question.")
    return found


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
