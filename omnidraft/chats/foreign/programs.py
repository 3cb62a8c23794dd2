"""What other programs' conversations look like in their exports, and the turns that each becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any, NamedTuple

from omnidraft.chats.foreign.turns import MOST_LINES, Talk, Turn, ends, line_to, moment, text_or

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
    return Talk(
        text_or(given.get("title")),
        _chatgpt_turns(path),
        "\n\n".join(_instructions(_messages(path))),
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
    if role not in ("user", "assistant") or _hidden(message) or message.get("recipient", "all") != "all":
        return None
    meta = message.get("metadata")
    model = meta.get("model_slug") if isinstance(meta, dict) and role == "assistant" else None
    written = moment(message.get("create_time"))
    key = text_or(message.get("id"))
    return Turn(role, _chatgpt_text(message), written, model if isinstance(model, str) else None, key=key)


def _instructions(messages: list[dict[str, Any]]) -> Iterator[str]:
    """System prompts with something in them: the export's own are empty or hidden."""
    for message in messages:
        if _role(message) == "system" and not _hidden(message) and (text := _chatgpt_text(message).strip()):
            yield text


def _role(message: dict[str, Any]) -> str:
    author = message.get("author")
    return text_or(author.get("role")) if isinstance(author, dict) else ""


def _hidden(message: dict[str, Any]) -> bool:
    meta = message.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("is_visually_hidden_from_conversation"))


def _chatgpt_text(message: dict[str, Any]) -> str:
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
    history, params = chat.get("history"), chat.get("params")
    history = history if isinstance(history, dict) else {}
    nodes = history.get("messages")
    nodes = nodes if isinstance(nodes, dict) else {}
    path = line_to(nodes, history.get("currentId"), "parentId")
    messages = path or (chat["messages"] if isinstance(chat.get("messages"), list) else [])
    system = text_or(params.get("system")) if isinstance(params, dict) else ""
    return Talk(
        text_or(given.get("title")) or text_or(chat.get("title")),
        _open_webui_turns(messages),
        system or text_or(chat.get("system")),
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
        content = "\n".join(text_or(part.get("text"), "[picture]") for part in content if isinstance(part, dict))
    text = _THOUGHTS.sub(_as_thoughts, text_or(content))
    model = message.get("model") if message["role"] == "assistant" else None
    written = moment(message.get("timestamp"))
    key = text_or(message.get("id"))
    return Turn(message["role"], text, written, model if isinstance(model, str) else None, key=key)


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
        said = [_lm_studio_turn(version, created, f"{place}.{at}") for at, version in enumerate(versions)]
        others += [[*shown, turn] for turn in said if turn is not None][-MOST_LINES:]
        if said and (turn := said[chosen]) is not None:
            shown = [*shown, turn]
    return Talk(
        text_or(given.get("name")),
        shown,
        text_or(given.get("systemPrompt")),
        created,
        moment(given.get("assistantLastMessagedAt")) or moment(given.get("userLastMessagedAt")),
        others,
    )


def _versions(message: dict[str, Any]) -> tuple[list[Any], int]:
    """A message's versions, and which of them is shown."""
    versions, at = message.get("versions"), message.get("currentlySelected")
    if not isinstance(versions, list):
        return [], -1
    return versions, at if isinstance(at, int) and 0 <= at < len(versions) else -1


def _lm_studio_turn(version: Any, created: float | None, key: str) -> Turn | None:
    if not isinstance(version, dict) or version.get("role") not in ("user", "assistant"):
        return None
    return Turn(version["role"], _lm_studio_text(version), created, _model(version), key=key)


def _model(version: dict[str, Any]) -> str | None:
    sender = version.get("senderInfo")
    return text_or(sender.get("senderName")) or None if isinstance(sender, dict) else None


def _lm_studio_text(version: dict[str, Any]) -> str:
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
