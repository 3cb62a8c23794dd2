"""What every other program's conversation becomes first: turns in a row, with what is known about the whole.

Other versions of turns are lines of their own; where lines go through the same turns, these are stored once.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from omnidraft.chats.records import Conversation, Message, title_of, whole_text
from omnidraft.chats.titles import UNTITLED, automatic_title

T = TypeVar("T")
MOST_LINES = 200  # of one conversation: each is read to its beginning
# What programs count in: seconds, milliseconds, microseconds or nanoseconds since 1970.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


@dataclass(frozen=True, slots=True)
class Turn:
    """role: user or assistant. model: who wrote an answer, where that is known. key: which turn it is, in all lines."""

    role: str
    text: str
    created: float | None = None
    model: str | None = None
    key: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation of another program, along the path that was shown there; `others` are the lines beside it."""

    title: str
    turns: list[Turn]
    system: str = ""
    created: float | None = None
    updated: float | None = None
    others: list[list[Turn]] = field(default_factory=list)


def as_stored(talk: Talk, source: str) -> tuple[Conversation, list[Message]] | None:
    """The conversation under new ids, turns of one role in a row as one; None where nobody says anything."""
    turns = list(_joined(turn for turn in talk.turns if turn.text.strip()))
    if not turns:
        return None
    now = time.time()
    created = min(talk.created or turns[0].created or now, now)
    updated = min(talk.updated or turns[-1].created or created, now)
    title = title_of(talk.title)
    automatic = automatic_title(turns[0].text) if turns[0].role == "user" else UNTITLED
    chat = Conversation(uuid.uuid4().hex, title or automatic, created, updated, bool(title), whole_text(talk.system))
    made: dict[tuple[str | None, str], Message] = {}  # by what is above and the turn's key
    shown: dict[str | None, str] = {}  # the version shown below each message; the line shown last decides
    for line in (*(_joined(turn for turn in other if turn.text.strip()) for other in talk.others), turns):
        parent = None
        for turn in line:
            place = (parent, turn.key or f"{turn.role} {turn.text}")  # some exports name no messages
            if place not in made:
                meta = {"source": source} | ({"model": whole_text(turn.model)} if turn.model else {})
                when = min(turn.created or created, now)
                made[place] = Message(
                    uuid.uuid4().hex, chat.id, parent, turn.role, whole_text(turn.text), when, True, meta
                )
            shown[parent] = made[place].id
            parent = made[place].id
    return chat, [replace(message, active=shown[message.parent] == message.id) for message in made.values()]


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


def ends(nodes: dict[str, Any], parent: str) -> list[str]:
    """The last messages of all lines, at most `MOST_LINES` of them: whatever no other names as its parent."""
    named = {node.get(parent) for node in nodes.values() if isinstance(node, dict)}
    return [name for name, node in nodes.items() if isinstance(node, dict) and name not in named][-MOST_LINES:]


def at(given: Any, kind: type[T], *names: str) -> T:
    """What stands in nested objects behind these names; an empty one of its kind where none does."""
    for name in names:
        given = given.get(name) if isinstance(given, dict) else None
    return given if isinstance(given, kind) else kind()


def _joined(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Programs write one answer as several messages, with what tools said between them."""
    held: Turn | None = None
    for turn in turns:
        if held is not None and held.role == turn.role:
            text, key = f"{held.text.rstrip()}\n\n{turn.text}", f"{held.key} {turn.key}".strip()
            held = Turn(held.role, text, held.created, held.model or turn.model, key=key)
            continue
        if held is not None:
            yield held
        held = turn
    if held is not None:
        yield held
