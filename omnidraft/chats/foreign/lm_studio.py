"""A conversation as LM Studio keeps it (`*.conversation.json`): messages with versions, of which one is shown.

An answer is a row of steps; those that are text are taken, thoughts as `<think>`.
"""

from __future__ import annotations

from typing import Any

from omnidraft.chats.foreign.turns import MOST_LINES, Talk, Turn, moment, text_or

NAME = "LM Studio"


def is_one(given: Any) -> bool:
    messages = given.get("messages") if isinstance(given, dict) else None
    if not isinstance(messages, list):
        return False
    return any(isinstance(one, dict) and isinstance(one.get("versions"), list) for one in messages)


def talk(given: dict[str, Any]) -> Talk:
    created = moment(given.get("createdAt"))
    messages = [message for message in given["messages"] if isinstance(message, dict)]
    shown: list[Turn] = []
    others: list[list[Turn]] = []
    for place, message in enumerate(messages):
        versions, chosen = _versions(message)
        said = [_turn(version, created, f"{place}.{at}") for at, version in enumerate(versions)]
        others += [[*shown, turn] for turn in said if turn is not None][-MOST_LINES:]
        if said and (turn := said[chosen]) is not None:
            shown = [*shown, turn]
    return Talk(
        text_or(given.get("name")),
        shown,
        text_or(given.get("systemPrompt")),
        created,
        moment(given.get("assistantLastMessagedAt")) or moment(given.get("userLastMessagedAt")),
        source=NAME,
        others=others,
    )


def _versions(message: dict[str, Any]) -> tuple[list[Any], int]:
    """A message's versions, and which of them is shown."""
    versions, at = message.get("versions"), message.get("currentlySelected")
    if not isinstance(versions, list):
        return [], -1
    return versions, at if isinstance(at, int) and 0 <= at < len(versions) else -1


def _turn(version: Any, created: float | None, key: str) -> Turn | None:
    if not isinstance(version, dict) or version.get("role") not in ("user", "assistant"):
        return None
    return Turn(version["role"], _text(version), created, _model(version), key=key)


def _model(version: dict[str, Any]) -> str | None:
    sender = version.get("senderInfo")
    return text_or(sender.get("senderName")) or None if isinstance(sender, dict) else None


def _text(version: dict[str, Any]) -> str:
    steps = version.get("steps")
    if not isinstance(steps, list):
        return _parts(version.get("content"))
    blocks = [step for step in steps if isinstance(step, dict) and step.get("type") == "contentBlock"]
    return "\n\n".join(filter(None, map(_block, blocks)))


def _block(step: dict[str, Any]) -> str:
    style, text = step.get("style"), _parts(step.get("content"))
    thoughts = isinstance(style, dict) and style.get("type") == "thinking" and text.strip()
    return f"<think>\n{text.strip()}\n</think>" if thoughts else text


def _parts(content: Any) -> str:
    if not isinstance(content, list):
        return text_or(content)
    said = []
    for part in content:
        if isinstance(part, dict):
            is_file = part.get("type") in ("file", "image")
            said.append("[file]" if is_file else text_or(part.get("text")))
    return "".join(said)
