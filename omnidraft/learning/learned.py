"""What was learned so far, for pages and commands: how learning stands, versions, updates, answers served.

Plain values, and who finds them out. Looks and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import psutil

from omnidraft.learning.adapters.serving import MERGED, Origin
from omnidraft.learning.adapters.store import warm_start
from omnidraft.learning.adapters.versions import Meta, Version
from omnidraft.learning.material.history import ServedAnswer
from omnidraft.learning.material.replay import LIMIT_MB
from omnidraft.learning.update import State, Update
from omnidraft.storage.paths import Part, measured

if TYPE_CHECKING:
    from omnidraft.learning.learner import Learner


@dataclass(frozen=True, slots=True)
class Start:
    """What a drafter can draft with besides the versions it has for a vocabulary.

    warm: what it learned for another vocabulary, while `target` answered; else it is the drafter as it came.
    """

    warm: bool
    served: bool
    target: str = ""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One adapter version and how it fares. live_answers, live_acceptance: of the answers it served (accepted /
    tested); losses: of its update."""

    version: Version
    bytes: int
    served: bool
    rejected: bool
    live_answers: int
    live_acceptance: float | None
    losses: tuple[float, ...]

    @property
    def name(self) -> str:
        return self.version.name

    @property
    def meta(self) -> Meta:
        return self.version.meta


@dataclass(frozen=True, slots=True)
class Status:
    """Everything a page shows at a glance.

    version grows with every change. state: off (in the settings), unavailable (nothing to train, or another program
    does), idle (waits for answers), due (has enough of them and waits for a quiet moment), training (whatever
    `update.state` it is in), paused (stopped for an answer, other long work or by the user: `held`). reason: a
    sentence. waiting: new answers; interval: an update begins at so many. update: the one that runs; last: the one
    before. served: version name, None for the bare drafter; merged: served as one file with the drafter. pid,
    memory_mb: of the training process, None while there is none. day_seconds: processor time of the updates of the
    last 24 hours.
    """

    version: int
    state: Literal["off", "unavailable", "idle", "due", "training", "paused"]
    reason: str
    waiting: int
    interval: int
    held: bool
    update: Update | None
    last: Update | None
    served: str | None
    origin: Origin
    merged: bool
    pid: int | None
    memory_mb: float | None
    replay_answers: int
    replay_tokens: int
    replay_bytes: int
    replay_limit: int
    day_seconds: float


class Learned:
    """Of the drafter and vocabulary that are loaded, unless a method says else."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def status(self, version: int) -> Status:
        """Everything at a glance. version: of what is told."""
        learner, stores = self._learner, self._learner.stores
        state, reason = self._state()
        choice = learner.pairing.choice if learner.pairing is not None else None
        pid = learner.process.pid if learner.updates.running is not None else None
        return Status(
            version=version, state=state, reason=reason, waiting=stores.fresh,
            interval=learner.updates.interval(learner.settings()),
            held=learner.held, update=learner.updates.running, last=learner.last,
            served=choice.version.name if choice is not None and choice.version else None,
            origin=choice.origin if choice is not None else "none",
            merged=choice is not None and choice.merged is not None, pid=pid, memory_mb=_memory(pid),
            replay_answers=stores.answers, replay_tokens=stores.tokens, replay_bytes=stores.bytes,
            replay_limit=int(LIMIT_MB * 1e6), day_seconds=stores.day_seconds,
        )  # fmt: skip

    def _state(self) -> tuple[Literal["off", "unavailable", "idle", "due", "training", "paused"], str]:
        learner, updates, settings = self._learner, self._learner.updates, self._learner.settings()
        if not learner.active or learner.stores.refused:
            return "unavailable", learner.why_not or learner.stores.refused
        if not settings.enabled:
            return "off", "Learning is switched off."
        if learner.held:
            return "paused", "Paused by you."
        if words := learner.meanwhile():
            return "paused", words
        if learner.pairing is None:
            return "unavailable", "No drafter is loaded yet; the first question loads it."
        if updates.running is not None and learner.answering:
            return "paused", "Paused while an answer is being written."
        if updates.running is not None:
            return "training", updates.running.doing()
        due = learner.state is State.DUE
        if learner.answering:
            return "due" if due else "idle", "An answer is being written."
        if due and updates.forced:
            return "due", "Training begins as soon as no answer is being written."
        if due:
            return "due", learner.waits_for or "Enough answers are new; training begins once nobody asked for a while."
        return "idle", updates.idle_reason(updates.interval(settings))

    def versions(self) -> list[VersionInfo]:
        """The versions, newest first."""
        name, pairing = self._store_name(), self._learner.pairing
        if name is None or pairing is None:
            return []
        with self._learner.stores.looking() as history:
            live = history.live(name) if history else {}
            made = history.published(name) if history else {}
        choice, rejected = pairing.choice, pairing.choice.learned_in.pointer.rejected
        served = choice.learned.name if choice.origin == "own" else None
        return [
            VersionInfo(
                v, measured(v.path), v.name == served, v.name in rejected, *live.get(v.name, (0, None)),
                losses=made[v.name].losses if v.name in made else (),
            )
            for v in reversed(choice.learned_in.versions())
        ]  # fmt: skip

    def starts(self) -> list[Start]:
        """What could serve besides the versions: what was learned for another vocabulary, and the bare drafter."""
        pairing = self._learner.pairing
        if pairing is None:
            return []
        warm = warm_start(pairing.choice.learned_in)
        found = [Start(True, pairing.choice.origin == "warm start", warm.meta.target)] if warm is not None else []
        return [*found, Start(False, pairing.choice.origin == "none")]

    def subject(self) -> tuple[str, str] | None:
        """The drafter and the family of vocabularies it learns for; None while none is loaded."""
        pairing = self._learner.pairing
        return (pairing.choice.drafter.stem, pairing.pair.target.family) if pairing is not None else None

    def history(self, limit: int = 50) -> list[Update]:
        """Updates, newest first; of all while nothing is loaded."""
        with self._learner.stores.looking() as history:
            return history.updates(limit, self._store_name()) if history else []

    def served_answers(self, limit: int = 500) -> list[ServedAnswer]:
        """The last answers, oldest first; with all while nothing is loaded."""
        with self._learner.stores.looking() as history:
            return history.served(limit, self._store_name()) if history else []

    def files(self) -> list[Part]:
        """Where everything learned in the profile lives, and how large it is."""
        profile = self._learner.profile
        merged, tables = profile.root / MERGED, self._learner.cache / "expansions"
        told = {
            "replay": (profile.replay, "Past answers the drafter can learn from."),
            "adapters": (profile.adapters, "What the drafter has learned, by version."),
            "metrics": (profile.metrics, "Updates, acceptance and speed over time."),
            "merged": (merged, "The drafter with its adapter added in; made anew."),
            "tables": (tables, "How targets' tokens are spelled; made anew."),
        }
        return [Part(name, path, words, measured(path)) for name, (path, words) in told.items()]

    def _store_name(self) -> str | None:
        pairing = self._learner.pairing
        return self._learner.adapters.store_name(pairing.choice.learned_in) if pairing is not None else None


def _memory(pid: int | None) -> float | None:
    """Resident memory of the training process, MB."""
    if pid is None:
        return None
    with suppress(psutil.Error):
        return round(psutil.Process(pid).memory_info().rss / 1e6, 1)
    return None


# What learning has brought in answers since: the drafter's acceptance before and after. Sums only. Speeds are not
# compared: those of other days come from another moment of the machine.


WINDOW = 50  # of the latest answers on either side
FEWEST = 40  # proposals on either side before acceptance is worth comparing


@dataclass(frozen=True, slots=True)
class Gain:
    """version: the first that served behind the answers compared with. acceptance: (before, after) of what the drafter
    proposed."""

    version: str
    acceptance: tuple[float, float]


def gain(answers: Sequence[ServedAnswer], target: str, version: str | None) -> Gain | None:
    """What the version served has brought with `target`; None while too little is known.

    answers: the last ones, oldest first. Compared are the latest answers of learned versions up to `version` with those
    of the bare drafter before the first of them, or of the oldest version known where those are no longer.
    """
    mine = [a for a in answers if a.target == target]
    if not version or not any(a.version == version for a in mine):
        return None
    base = "" if any(a.version == "" for a in mine) else mine[0].version
    learned = [a for a in mine if base < a.version <= version]
    if not learned:
        return None
    before = [a for a in mine[: mine.index(learned[0])] if a.version == base][-WINDOW:]
    after = learned[-WINDOW:]
    if min(sum(a.proposed for a in side) for side in (before, after)) < FEWEST:
        return None
    return Gain(min(a.version for a in learned), (_acceptance(before), _acceptance(after)))


def _acceptance(answers: Sequence[ServedAnswer]) -> float:
    return sum(a.accepted for a in answers) / sum(a.proposed for a in answers)
