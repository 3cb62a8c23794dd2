"""What is read from an answer, as it comes: thoughts, content, and calls whose arguments grow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thoughts:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of a tool; `id` is "" unless the model wrote one."""

    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the JSON text of the last call's arguments."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The last call is whole: its arguments are a JSON object."""


@dataclass(frozen=True, slots=True)
class CallBroken:
    """The last call never became one; `text` is all that the model wrote of it."""

    text: str


Event = Thoughts | Content | CallBegun | Arguments | CallEnded | CallBroken


@dataclass(frozen=True, slots=True)
class Call:
    """One call. arguments: a JSON object, as text."""

    name: str
    arguments: str
    id: str = ""


@dataclass(slots=True)
class Reading:
    """All that was read of one answer."""

    reasoning: str = ""
    content: str = ""
    calls: list[Call] = None  # type: ignore[assignment]


def collect(events: list[Event]) -> Reading:
    """The events of an answer, put together; a call that never ended counts as text if it broke."""
    thoughts, content = [], []
    calls: list[tuple[CallBegun, list[str]]] = []
    for event in events:
        if isinstance(event, Thoughts):
            thoughts.append(event.text)
        elif isinstance(event, Content):
            content.append(event.text)
        elif isinstance(event, CallBegun):
            calls.append((event, []))
        elif isinstance(event, Arguments):
            calls[-1][1].append(event.text)
        elif isinstance(event, CallBroken):
            calls.pop()
            content.append(event.text)
    whole = [Call(begun.name, "".join(parts), begun.id) for begun, parts in calls]
    return Reading("".join(thoughts), "".join(content), whole)
