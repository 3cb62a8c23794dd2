"""What every other program's conversation becomes first: turns in a row, with what is known about the whole."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from omnidraft.chats.records import Conversation, Message, whole_text
from omnidraft.chats.titles import MAX_TITLE, UNTITLED, automatic_title, one_line, shorten

# What programs count in: seconds, milliseconds, microseconds or nanoseconds since 1970.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


@dataclass(frozen=True, slots=True)
class Turn:
    """role: user or assistant. model: who wrote an answer, where that is known."""

    role: str
    text: str
    created: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation of another program, along the path that was shown there."""

    title: str
    turns: list[Turn]
    system: str = ""
    created: float | None = None
    updated: float | None = None
    source: str = field(default="", kw_only=True)


def as_stored(talk: Talk) -> tuple[Conversation, list[Message]] | None:
    """The conversation under new ids, turns of one role in a row as one; None where nobody says anything."""
    turns = list(_joined(turn for turn in talk.turns if turn.text.strip()))
    if not turns:
        return None
    now = time.time()
    created = min(talk.created or turns[0].created or now, now)
    updated = min(talk.updated or turns[-1].created or created, now)
    title = shorten(one_line(whole_text(talk.title)), MAX_TITLE * 2)
    automatic = automatic_title(turns[0].text) if turns[0].role == "user" else UNTITLED
    chat = Conversation(uuid.uuid4().hex, title or automatic, created, updated, bool(title), whole_text(talk.system))
    messages: list[Message] = []
    for turn in turns:
        parent = messages[-1].id if messages else None
        meta = {"source": talk.source} | ({"model": whole_text(turn.model)} if turn.model else {})
        when = min(turn.created or created, now)
        messages.append(Message(uuid.uuid4().hex, chat.id, parent, turn.role, whole_text(turn.text), when, True, meta))
    return chat, messages


def moment(value: Any) -> float | None:
    """Seconds since 1970 of a time in whatever unit; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return value / next((unit for limit, unit in _UNITS if value >= limit), 1.0)


def line_to(nodes: dict[str, Any], last: Any, parent: str) -> list[dict[str, Any]]:
    """From the first message to `last`, along the names of parents; a ring ends where it closes."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    while isinstance(last, str) and last not in seen and isinstance(node := nodes.get(last), dict):
        seen.add(last)
        found.append(node)
        last = node.get(parent)
    return found[::-1]


def text_or(value: Any, other: str = "") -> str:
    return value if isinstance(value, str) else other


def _joined(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Programs write one answer as several messages, with what tools said between them."""
    held: Turn | None = None
    for turn in turns:
        if held is not None and held.role == turn.role:
            held = Turn(held.role, f"{held.text.rstrip()}\n\n{turn.text}", held.created, held.model or turn.model)
            continue
        if held is not None:
            yield held
        held = turn
    if held is not None:
        yield held
