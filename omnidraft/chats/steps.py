"""Calls of functions inside an answer: how they are kept with it, and how a model reads the answer then.

An answer with calls stays one message: its text as it was said, and the steps at which it asked for something. They
are kept as plain JSON values in the meta data; what is no step there is passed over (it may come from an import).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from omnidraft.chats.thoughts import said

ASKED, DONE, REFUSED = "asked", "done", "refused"
NOT_ALLOWED = "The user did not allow this call."
_LONGEST = 20_000  # characters of arguments or a result that make sense


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. arguments: a JSON object as text; state: ASKED, DONE or REFUSED; result: what the model reads."""

    id: str
    name: str
    arguments: str
    state: str = ASKED
    result: str = ""

    def done(self, result: str) -> ToolCall:
        return replace(self, state=DONE, result=result)

    def refused(self) -> ToolCall:
        return replace(self, state=REFUSED, result=NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class Step:
    """Calls behind the first `at` characters and `ids` tokens of an answer."""

    at: int
    ids: int
    calls: tuple[ToolCall, ...]


def steps_of(meta: Mapping[str, Any]) -> list[Step]:
    """The steps in a message's meta data, in order."""
    given = meta.get("steps")
    found = [step for one in given if (step := _step(one)) is not None] if isinstance(given, list) else []
    return sorted(found, key=lambda step: step.at)


def steps_meta(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Plain values that keep `steps`."""
    return [{"at": step.at, "ids": step.ids, "calls": [asdict(call) for call in step.calls]} for step in steps]


def open_call(steps: Sequence[Step]) -> ToolCall | None:
    """The call that waits for its user, the first of them."""
    return next((call for step in steps for call in step.calls if call.state == ASKED), None)


def with_call(steps: Sequence[Step], call: ToolCall) -> list[Step]:
    """The steps with this call in place of the one of the same id."""
    return [replace(step, calls=tuple(call if old.id == call.id else old for old in step.calls)) for step in steps]


def messages_with_steps(
    content: str, steps: Sequence[Step], last: Callable[[str], dict[str, Any]] = said
) -> list[dict[str, Any]]:
    """What a model reads of an answer: its text up to each step, the calls, their results, and the text behind, which
    `last` makes a message of."""
    found: list[dict[str, Any]] = []
    start = 0
    for step in steps:
        calls = [_described(call) for call in step.calls]
        found.append({**said(content[start : step.at].rstrip()), "tool_calls": calls})
        start = max(start, step.at)
        found += [
            {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result or NOT_ALLOWED}
            for c in step.calls
        ]
    if rest := content[start:]:
        found.append(last(rest))
    return found


def _described(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _step(given: Any) -> Step | None:
    if not isinstance(given, Mapping) or not isinstance(given.get("calls"), list):
        return None
    at, ids = given.get("at"), given.get("ids")
    if type(at) is not int or type(ids) is not int or at < 0 or ids < 0:
        return None
    calls = tuple(call for one in given["calls"] if (call := _call(one)) is not None)
    return Step(at, ids, calls) if calls else None


def _call(given: Any) -> ToolCall | None:
    names = ("id", "name", "arguments", "state", "result")
    values: list[Any] = [given.get(name) for name in names] if isinstance(given, Mapping) else []
    if not values or not all(isinstance(value, str) and len(value) <= _LONGEST for value in values):
        return None
    try:
        usable = isinstance(json.loads(values[2]), dict)
    except (ValueError, RecursionError):
        usable = False
    return ToolCall(*values) if usable and values[3] in (ASKED, DONE, REFUSED) else None
