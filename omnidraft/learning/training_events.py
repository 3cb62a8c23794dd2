"""What the training process says while it works, one line of JSON each, and what an update is behind each of them.

Pure values: processes, stores and what is trained are not known here.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from omnidraft.learning.facts import Estimates, Update


@dataclass(frozen=True)
class Event:
    """kind: its name in a line."""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()

    def to_line(self) -> str:
        return json.dumps({"event": self.kind, **asdict(self)}) + "\n"


@dataclass(frozen=True)
class Started(Event):
    """The answers are read. new, replayed: how many are trained on; windows: pieces of context they make."""

    new: int
    replayed: int
    windows: int


@dataclass(frozen=True)
class Stepped(Event):
    """An optimizer step was made. loss: mean over its positions, nats; tokens: pieces learned from so far."""

    step: int
    steps: int
    loss: float
    tokens: int


@dataclass(frozen=True)
class Estimated(Event):
    """Held-out acceptance of what is served ("before") or of what was trained ("after"), by slice."""

    when: Literal["before", "after"]
    slices: Estimates


@dataclass(frozen=True)
class Published(Event):
    """A version is served from now on. through: newest replay ordinal it has seen; reason: the gate's sentence."""

    version: str
    through: int
    reason: str


@dataclass(frozen=True)
class Refused(Event):
    """What was trained is not served."""

    through: int
    reason: str


@dataclass(frozen=True)
class Compared(Event):
    """The served version and the one before it, on the same recent answers."""

    other_is_better: bool
    served: Estimates
    other: Estimates


@dataclass(frozen=True)
class Failed(Event):
    """Nothing came of it; message is for display."""

    message: str


@dataclass(frozen=True)
class Finished(Event):
    """All is done. cpu_seconds: of the job, and of the process's start if it is the first; peak_mb: of the process."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Ended(Event):
    """The job is done (code 0) or its process is gone; said by the app's side. message: its last words if it failed."""

    code: int | None
    message: str


_KINDS: dict[str, type[Event]] = {cls.__name__.lower(): cls for cls in Event.__subclasses__()}


def from_line(line: str) -> Event | None:
    """The event behind a line; None for a line that is none."""
    try:
        values = json.loads(line)
        cls = _KINDS[values["event"]]
        return cls(**{field.name: values[field.name] for field in fields(cls)})
    except (ValueError, KeyError, TypeError):
        return None


def advance(update: Update, event: Event) -> Update:
    """The update behind `event`; events that say nothing of an update change nothing."""
    changes: dict[str, Any] = {}
    match event:
        case Started():
            changes = {"answers_new": event.new, "answers_replayed": event.replayed}
        case Stepped():
            losses = (*update.losses, round(event.loss, 4))
            changes = {"step": event.step, "steps": event.steps, "tokens": event.tokens, "losses": losses}
        case Estimated():
            changes = {event.when: event.slices}
        case Published():
            changes = {"outcome": "published", "version": event.version, "reason": _sentence(event.reason)}
        case Refused():
            changes = {"outcome": "refused", "reason": _sentence(event.reason)}
        case Failed():
            changes = {"outcome": "failed", "reason": _sentence(event.message)}
        case Finished():
            took = {"seconds": round(event.seconds, 2), "cpu_seconds": round(event.cpu_seconds, 2)}
            changes = {**took, "peak_mb": round(event.peak_mb, 1)}
    return replace(update, **changes)


def conclude(update: Update, event: Ended, why: str | None) -> Update:
    """The update when the process is gone. why: the reason this program ended it, None if it did not."""
    update = replace(update, ended=time.time())
    if update.outcome != "running":
        return update
    if why is not None:
        return replace(update, outcome="interrupted", reason=why)
    if event.code is not None and event.code < 0:
        return replace(update, outcome="interrupted", reason="The training process was ended from outside.")
    return replace(update, outcome="failed", reason=_sentence(event.message or "the training process gave up"))


def _sentence(words: str) -> str:
    text = words.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
