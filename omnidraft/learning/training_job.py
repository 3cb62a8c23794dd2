"""What is asked of the training process, as one line of JSON; jobs are built here from what is served and the settings.

Nothing is started here, and nothing heavy imported at once: the training process reads its job before the limits are
set that numpy and torch read when they load.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnidraft.learning.facts import Estimates, Update
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import LearningSettings

if TYPE_CHECKING:
    from omnidraft.learning.adapters.serving import Choice  # brings llama.cpp


Kind = Literal["update", "compare", "merge"]
MOST_NEW = 64  # new answers of one update; a backlog is worked off oldest first
PASSES, STEPS = 2, 20
MOST_ASKED, PASSES_ASKED = 512, 6  # of an update somebody asked for: one long one takes less than many short ones
MORE_STEPS = 40  # of such a one, and where nothing is served yet: twelve long answers teach .25 then, with 20 .11


@dataclass(frozen=True)
class TrainingJob:
    """kind: "update" trains and publishes; "compare" only estimates `start` against `other` on recent answers; "merge"
    writes the adapter `start` and the drafter as one file, `merged`.

    drafter: its GGUF; fingerprint: of that file; replay: the store's file; tables: expansion tables by target
    vocabulary fingerprint; store: folder of the adapter versions; vocabulary: the store's; target: name of
    the target in use; parent: name of the version served, None for the bare drafter; start: weights served, to
    begin with unless there is a candidate trained from them, None: an adapter that changes nothing; inherited:
    conversations `start` was trained on. other: weights to compare with. merged: an update's folder for the merged file
    of what it publishes, None to write none. gated: publish only what is better than what is served; else every update.
    passes: over everything; least_steps: more passes while that makes fewer steps, for a handful moves nothing (after
    40 answers: mathematics .44 accepted with 20 steps at least, .42 with 40, functions .25 and .27, for half the time).
    most_new: answers an update learns from at most, replayed ones not counted.
    """

    drafter: str
    fingerprint: str
    replay: str
    tables: dict[str, str]
    store: str
    vocabulary: str
    target: str = ""
    kind: Kind = "update"
    parent: str | None = None
    start: str | None = None
    other: str | None = None
    merged: str | None = None
    inherited: tuple[str, ...] = ()
    through: int = 0
    loss: str = "projected"
    rank: int = 32
    learning_rate: float = 2e-3
    rehearsal: float = 1.0
    gated: bool = True
    passes: int = PASSES
    least_steps: int = STEPS
    most_new: int = MOST_NEW
    cpu_percent: int = 50
    window: int = 512
    seed: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> TrainingJob:
        values = json.loads(line)
        known = {f.name for f in fields(cls)}
        values["inherited"] = tuple(values.get("inherited", ()))
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def threads(self) -> int:
        """Torch threads that stay inside the budget when they all work."""
        return max(1, int(physical_cores() * self.cpu_percent / 100))

    @property
    def duty(self) -> float:
        """Share of the time those threads may work: less than 1 only if the budget is below one core."""
        return min(1.0, physical_cores() * self.cpu_percent / 100 / self.threads)


def make_job(
    kind: Kind, choice: Choice, vocabulary: str, target: str, settings: LearningSettings, replay: Path,
    tables: dict[str, str], merged: Path | None = None, seed: int = 0, *, asked: bool = False,
) -> TrainingJob:  # fmt: skip
    """An update of the served version (or of the one a new vocabulary starts warm from) by the answers behind it; or
    a comparison of that version with what was served before it; or one file of it and the drafter.

    vocabulary: the target's fingerprint; target: its name; tables: as in `TrainingJob`; merged: folder for an update's
    merged file. asked: somebody wants the update now, and waits.
    """
    from omnidraft.learning.adapters.versions import model_fingerprint  # brings numpy

    version = choice.version
    job = TrainingJob(
        str(choice.drafter), model_fingerprint(choice.drafter), str(replay), tables, str(choice.learned_in.folder),
        vocabulary, target, kind, loss=settings.loss, rank=settings.rank,
        learning_rate=settings.learning_rate, rehearsal=settings.rehearsal, cpu_percent=settings.cpu_percent,
        start=str(version.weights) if version is not None else None,
    )  # fmt: skip
    if kind == "merge":
        return replace(job, start=str(choice.adapter), merged=str(choice.merged))
    if kind == "compare":
        previous = choice.learned_in.previous()
        return replace(job, other=str(previous.weights) if previous is not None else None)
    return replace(
        job,
        parent=version.name if version is not None and choice.origin == "own" else None,
        inherited=version.meta.chats if version is not None else (),
        through=choice.learned_in.through,
        merged=str(merged) if merged is not None else None,
        seed=seed,
        most_new=MOST_ASKED if asked else MOST_NEW,
        passes=PASSES_ASKED if asked else PASSES,
        least_steps=MORE_STEPS if asked or version is None else STEPS,
    )


# What the training process says while it works, one line of JSON each, and what an update is behind each of them. Pure
# values: processes, stores and what is trained are not known here.


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
