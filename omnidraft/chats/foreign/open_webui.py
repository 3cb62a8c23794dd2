"""Conversations as Open WebUI exports them: a list whose items hold a history of messages by name and the current one.

Older exports have a plain list of messages beside it. Thoughts, which it writes as a fold of HTML, become `<think>`.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from omnidraft.chats.foreign.turns import Talk, Turn, ends, line_to, moment, text_or

NAME = "Open WebUI"
_THOUGHTS = re.compile(
    r'<details\s[^>]*type="reasoning"[^>]*>\s*(?:<summary>[^<]*</summary>)?(.*?)</details>\s*', re.DOTALL
)


def is_one(given: Any) -> bool:
    chat = _chat(given)
    history = chat.get("history")
    return (isinstance(history, dict) and isinstance(history.get("messages"), dict)) or (
        isinstance(given, dict) and isinstance(given.get("chat"), dict) and isinstance(chat.get("messages"), list)
    )


def talk(given: dict[str, Any]) -> Talk:
    chat = _chat(given)
    history, params = chat.get("history"), chat.get("params")
    history = history if isinstance(history, dict) else {}
    nodes = history.get("messages")
    nodes = nodes if isinstance(nodes, dict) else {}
    path = line_to(nodes, history.get("currentId"), "parentId")
    messages = path or (chat["messages"] if isinstance(chat.get("messages"), list) else [])
    system = text_or(params.get("system")) if isinstance(params, dict) else ""
    return Talk(
        text_or(given.get("title")) or text_or(chat.get("title")),
        _turns(messages),
        system or text_or(chat.get("system")),
        moment(given.get("created_at")) or moment(chat.get("timestamp")),
        moment(given.get("updated_at")),
        source=NAME,
        others=[_turns(line_to(nodes, end, "parentId")) for end in ends(nodes, "parentId")] if path else [],
    )


def _turns(messages: list[Any]) -> list[Turn]:
    return [_turn(one) for one in messages if isinstance(one, dict) and one.get("role") in ("user", "assistant")]


def _chat(given: Any) -> dict[str, Any]:
    """An item of the list, or the conversation itself."""
    if not isinstance(given, dict):
        return {}
    return given["chat"] if isinstance(given.get("chat"), dict) else given


def _turn(message: dict[str, Any]) -> Turn:
    content = message.get("content")
    if isinstance(content, list):  # text and pictures
        content = "\n".join(text_or(part.get("text"), "[picture]") for part in content if isinstance(part, dict))
    text = _THOUGHTS.sub(_as_thoughts, text_or(content))
    model = message.get("model") if message["role"] == "assistant" else None
    written = moment(message.get("timestamp"))
    key = text_or(message.get("id"))
    return Turn(message["role"], text, written, model if isinstance(model, str) else None, key=key)


def _as_thoughts(found: re.Match[str]) -> str:
    lines = [line.removeprefix(">").removeprefix(" ") for line in unescape(found[1]).strip().split("\n")]
    return f"<think>\n{chr(10).join(lines)}\n</think>\n\n"
