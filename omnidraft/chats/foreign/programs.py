"""What other programs' conversations look like in their exports, and the turns that each becomes."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any, NamedTuple

from omnidraft.chats.foreign.turns import MOST_LINES, Talk, Turn, at, ends, line_to, moment

# ChatGPT (`conversations.json`): a tree of messages and the one shown last. The path to that one is shown, other
# branches are versions beside it. What a person did not see (tool calls, hidden system messages, thoughts) stays out;
# pictures become a word in brackets.


def _is_chatgpt(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("mapping"), dict)


def _chatgpt(given: dict[str, Any]) -> Talk:
    nodes = given["mapping"]
    last = ends(nodes, "parent")
    path = line_to(nodes, given.get("current_node"), "parent")
    if not path and last:  # the file does not say which was shown; an export has nodes in order
        path = line_to(nodes, last[-1], "parent")
    instructions = [_chatgpt_text(one).strip() for one in _messages(path) if _role(one) == "system"]
    return Talk(
        at(given, str, "title"),
        _chatgpt_turns(path),
        "\n\n".join(filter(None, instructions)),  # the export's own are empty or hidden
        moment(given.get("create_time")),
        moment(given.get("update_time")),
        [_chatgpt_turns(line_to(nodes, end, "parent")) for end in last],
    )


def _messages(path: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node["message"] for node in path if isinstance(node.get("message"), dict)]


def _chatgpt_turns(path: list[dict[str, Any]]) -> list[Turn]:
    return [turn for message in _messages(path) if (turn := _chatgpt_turn(message)) is not None]


def _chatgpt_turn(message: dict[str, Any]) -> Turn | None:
    role = _role(message)
    if role not in ("user", "assistant") or message.get("recipient", "all") != "all":
        return None
    model = at(message, str, "metadata", "model_slug") if role == "assistant" else ""
    written = moment(message.get("create_time"))
    return Turn(role, _chatgpt_text(message), written, model or None, key=at(message, str, "id"))


def _role(message: dict[str, Any]) -> str:
    """Whose words it shows; "" where it is hidden."""
    meta = at(message, dict, "metadata")
    return "" if meta.get("is_visually_hidden_from_conversation") else at(message, str, "author", "role")


def _chatgpt_text(message: dict[str, Any]) -> str:
    content = at(message, dict, "content")
    kind = content.get("content_type")
    if kind in ("text", "multimodal_text"):
        return "\n".join(filter(None, map(_part, at(content, list, "parts"))))
    if kind == "code" and (code := at(content, str, "text")):
        return f"```\n{code}\n```"
    return ""


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return at(part, str, "text") or ("[picture]" if "image" in at(part, str, "content_type") else "[file]")
    return at(part, str)


# Open WebUI: a list whose items hold a history of messages by name and the current one. Older exports have a plain list
# of messages beside it. Thoughts, which it writes as a fold of HTML, become `<think>`.


_THOUGHTS = re.compile(
    r'<details\s[^>]*type="reasoning"[^>]*>\s*(?:<summary>[^<]*</summary>)?(.*?)</details>\s*', re.DOTALL
)


def _is_open_webui(given: Any) -> bool:
    chat = _chat(given)
    history = chat.get("history")
    return (isinstance(history, dict) and isinstance(history.get("messages"), dict)) or (
        isinstance(given, dict) and isinstance(given.get("chat"), dict) and isinstance(chat.get("messages"), list)
    )


def _open_webui(given: dict[str, Any]) -> Talk:
    chat = _chat(given)
    nodes = at(chat, dict, "history", "messages")
    path = line_to(nodes, at(chat, str, "history", "currentId"), "parentId")
    return Talk(
        at(given, str, "title") or at(chat, str, "title"),
        _open_webui_turns(path or at(chat, list, "messages")),
        at(chat, str, "params", "system") or at(chat, str, "system"),
        moment(given.get("created_at")) or moment(chat.get("timestamp")),
        moment(given.get("updated_at")),
        [_open_webui_turns(line_to(nodes, end, "parentId")) for end in ends(nodes, "parentId")] if path else [],
    )


def _open_webui_turns(messages: list[Any]) -> list[Turn]:
    return [
        _open_webui_turn(one) for one in messages if isinstance(one, dict) and one.get("role") in ("user", "assistant")
    ]


def _chat(given: Any) -> dict[str, Any]:
    """An item of the list, or the conversation itself."""
    if not isinstance(given, dict):
        return {}
    return given["chat"] if isinstance(given.get("chat"), dict) else given


def _open_webui_turn(message: dict[str, Any]) -> Turn:
    content = message.get("content")
    if isinstance(content, list):  # text and pictures
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(text if isinstance(text, str) else "[picture]" for text in texts)
    text = _THOUGHTS.sub(_as_thoughts, at(content, str))
    model = at(message, str, "model") if message["role"] == "assistant" else ""
    return Turn(message["role"], text, moment(message.get("timestamp")), model or None, key=at(message, str, "id"))


def _as_thoughts(found: re.Match[str]) -> str:
    lines = [line.removeprefix(">").removeprefix(" ") for line in unescape(found[1]).strip().split("\n")]
    return f"<think>\n{chr(10).join(lines)}\n</think>\n\n"


# LM Studio (`*.conversation.json`): messages with versions, of which one is shown. An answer is a row of steps; those
# that are text are taken, thoughts as `<think>`.


def _is_lm_studio(given: Any) -> bool:
    messages = given.get("messages") if isinstance(given, dict) else None
    if not isinstance(messages, list):
        return False
    return any(isinstance(one, dict) and isinstance(one.get("versions"), list) for one in messages)


def _lm_studio(given: dict[str, Any]) -> Talk:
    created = moment(given.get("createdAt"))
    messages = [message for message in given["messages"] if isinstance(message, dict)]
    shown: list[Turn] = []
    others: list[list[Turn]] = []
    for place, message in enumerate(messages):
        versions, chosen = _versions(message)
        said = [_lm_studio_turn(version, created, f"{place}.{number}") for number, version in enumerate(versions)]
        others += [[*shown, turn] for turn in said if turn is not None][-MOST_LINES:]
        if said and (turn := said[chosen]) is not None:
            shown = [*shown, turn]
    return Talk(
        at(given, str, "name"),
        shown,
        at(given, str, "systemPrompt"),
        created,
        moment(given.get("assistantLastMessagedAt")) or moment(given.get("userLastMessagedAt")),
        others,
    )


def _versions(message: dict[str, Any]) -> tuple[list[Any], int]:
    """A message's versions, and which of them is shown."""
    versions, chosen = at(message, list, "versions"), message.get("currentlySelected")
    return versions, chosen if isinstance(chosen, int) and 0 <= chosen < len(versions) else -1


def _lm_studio_turn(version: Any, created: float | None, key: str) -> Turn | None:
    if not isinstance(version, dict) or version.get("role") not in ("user", "assistant"):
        return None
    model = at(version, str, "senderInfo", "senderName")
    return Turn(version["role"], _lm_studio_text(version), created, model or None, key=key)


def _lm_studio_text(version: dict[str, Any]) -> str:
    steps = version.get("steps")
    if not isinstance(steps, list):
        return _parts(version.get("content"))
    blocks = [step for step in steps if isinstance(step, dict) and step.get("type") == "contentBlock"]
    return "\n\n".join(filter(None, map(_block, blocks)))


def _block(step: dict[str, Any]) -> str:
    text = _parts(step.get("content"))
    thoughts = at(step, str, "style", "type") == "thinking" and text.strip()
    return f"<think>\n{text.strip()}\n</think>" if thoughts else text


def _parts(content: Any) -> str:
    if not isinstance(content, list):
        return at(content, str)
    parts = [part for part in content if isinstance(part, dict)]
    return "".join("[file]" if part.get("type") in ("file", "image") else at(part, str, "text") for part in parts)


class Program(NamedTuple):
    """is_one: whether a value is a conversation of its; talk: what it says."""

    name: str
    is_one: Callable[[Any], bool]
    talk: Callable[[dict[str, Any]], Talk]


PROGRAMS = (
    Program("ChatGPT", _is_chatgpt, _chatgpt),
    Program("Open WebUI", _is_open_webui, _open_webui),
    Program("LM Studio", _is_lm_studio, _lm_studio),
)
