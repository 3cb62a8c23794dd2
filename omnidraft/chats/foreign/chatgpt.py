"""Conversations as ChatGPT exports them (`conversations.json`): a tree of messages and the one shown last.

The path to that one is shown, other branches are versions beside it. What a person did not see (tool calls, hidden
system messages, thoughts) stays out; pictures become a word in brackets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnidraft.chats.foreign.turns import Talk, Turn, ends, line_to, moment, text_or

NAME = "ChatGPT"


def is_one(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("mapping"), dict)


def talk(given: dict[str, Any]) -> Talk:
    nodes = given["mapping"]
    last = ends(nodes, "parent")
    path = line_to(nodes, given.get("current_node"), "parent")
    if not path and last:  # the file does not say which was shown; an export has nodes in order
        path = line_to(nodes, last[-1], "parent")
    return Talk(
        text_or(given.get("title")),
        _turns(path),
        "\n\n".join(_instructions(_messages(path))),
        moment(given.get("create_time")),
        moment(given.get("update_time")),
        source=NAME,
        others=[_turns(line_to(nodes, end, "parent")) for end in last],
    )


def _messages(path: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node["message"] for node in path if isinstance(node.get("message"), dict)]


def _turns(path: list[dict[str, Any]]) -> list[Turn]:
    return [turn for message in _messages(path) if (turn := _turn(message)) is not None]


def _turn(message: dict[str, Any]) -> Turn | None:
    role = _role(message)
    if role not in ("user", "assistant") or _hidden(message) or message.get("recipient", "all") != "all":
        return None
    meta = message.get("metadata")
    model = meta.get("model_slug") if isinstance(meta, dict) and role == "assistant" else None
    written = moment(message.get("create_time"))
    key = text_or(message.get("id"))
    return Turn(role, _text(message), written, model if isinstance(model, str) else None, key=key)


def _instructions(messages: list[dict[str, Any]]) -> Iterator[str]:
    """System prompts with something in them: the export's own are empty or hidden."""
    for message in messages:
        if _role(message) == "system" and not _hidden(message) and (text := _text(message).strip()):
            yield text


def _role(message: dict[str, Any]) -> str:
    author = message.get("author")
    return text_or(author.get("role")) if isinstance(author, dict) else ""


def _hidden(message: dict[str, Any]) -> bool:
    meta = message.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("is_visually_hidden_from_conversation"))


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, dict):
        return ""
    kind = content.get("content_type")
    if kind in ("text", "multimodal_text"):
        parts = content.get("parts")
        return "\n".join(filter(None, map(_part, parts))) if isinstance(parts, list) else ""
    if kind == "code" and (code := text_or(content.get("text"))):
        return f"```\n{code}\n```"
    return ""


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return text_or(part.get("text")) or ("[picture]" if "image" in text_or(part.get("content_type")) else "[file]")
    return text_or(part)
