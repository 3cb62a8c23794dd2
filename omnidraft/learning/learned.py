"""What was learned so far, for pages and commands: versions, updates, answers served. Looks and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.facts import ServedAnswer, Start, State, Status, Update, VersionInfo
from omnidraft.learning.material.history import History, OpenStores, files_of
from omnidraft.learning.material.record import Pairing
from omnidraft.learning.material.replay import LIMIT_MB
from omnidraft.storage.paths import Part, ProfilePaths, measured

if TYPE_CHECKING:
    from omnidraft.learning.learner import Learner


# What learning tells of itself: how it stands, and the versions with what they did, for pages and commands. Looks and
# changes nothing; which of it is asked for when is `Learner`'s.


def status_of(learner: Learner, version: int) -> Status:
    """Everything at a glance. version: of what is told."""
    settings, run, stores = learner.settings(), learner.run, learner.stores
    state, reason = _state(learner)
    choice = learner.pairing.choice if learner.pairing is not None else None
    pid = learner.process.pid if run is not None else None
    return Status(
        version=version, state=state, reason=reason, waiting=stores.fresh, interval=settings.interval,
        held=learner.held, update=run.update if run is not None else None, last=learner.last,
        served=choice.version.name if choice is not None and choice.version is not None else None,
        origin=choice.origin if choice is not None else "none", merged=learner.merged, pid=pid,
        memory_mb=_memory(pid), replay_answers=stores.answers, replay_tokens=stores.tokens,
        replay_bytes=stores.bytes, replay_limit=int(LIMIT_MB * 1e6),
        day_seconds=stores.day_seconds,
    )  # fmt: skip


def _state(learner: Learner) -> tuple[State, str]:
    run, settings = learner.run, learner.settings()
    if not learner.active or learner.stores.refused:
        return "unavailable", learner.why_not or learner.stores.refused
    if not settings.enabled:
        return "off", "Learning is switched off."
    if learner.pairing is None:
        return "unavailable", "No drafter is loaded yet; the first question loads it."
    if learner.held:
        return "paused", "Paused by you."
    if run is not None and learner.answering:
        return "paused", "Paused while an answer is being written."
    if run is not None:
        return "training", run.doing()
    if learner.answering:
        return "idle", "An answer is being written."
    return "idle", (learner.is_due and learner.waits_for) or learner.due.idle_reason(settings.interval)


def version_facts(choice: Choice, adapters: Adapters, history: History | None) -> list[VersionInfo]:
    """The versions in a choice's store, newest first."""
    if choice.store is None:
        return []
    name, pointer = adapters.store_name(choice.store), choice.store.pointer
    live = history.live(name) if history else {}
    curves = {v: update.losses for v, update in history.published(name).items()} if history else {}
    found = []
    for v in reversed(choice.store.versions()):
        count, acceptance = live.get(v.name, (0, None))
        meta = v.meta
        served = choice.origin == "own" and choice.version is not None and choice.version.name == v.name
        info = VersionInfo(
            name=v.name, path=v.path, bytes=measured(v.path), created=meta.created, served=served,
            rejected=v.name in pointer.rejected, parent=meta.parent, target=meta.target, loss_name=meta.loss_name,
            rank=meta.rank, loss=meta.loss, answers=meta.answers, tokens=meta.tokens, seconds=meta.seconds,
            before=meta.before, after=meta.after, live_answers=count, live_acceptance=acceptance,
            losses=curves.get(v.name, ()),
        )  # fmt: skip
        found.append(info)
    return found


def _memory(pid: int | None) -> float | None:
    """Resident memory of the training process, MB."""
    if pid is None:
        return None
    with suppress(psutil.Error):
        return round(psutil.Process(pid).memory_info().rss / 1e6, 1)
    return None


log = logging.getLogger("omnidraft.learning")


class Learned:
    """Of the drafter and vocabulary that are loaded (`pairing`, None while none are), unless a method says else."""

    def __init__(
        self, profile: ProfilePaths, cache: Path, adapters: Adapters, stores: OpenStores,
        pairing: Callable[[], Pairing | None],
    ) -> None:  # fmt: skip
        self._profile, self._cache, self._adapters = profile, cache, adapters
        self._stores, self._pairing = stores, pairing

    def versions(self) -> list[VersionInfo]:
        """The versions, newest first."""
        if (pairing := self._pairing()) is None:
            return []
        with self._looking() as history:
            return version_facts(pairing.choice, self._adapters, history)

    def starts(self) -> list[Start]:
        """What could serve besides the versions: what was learned for another vocabulary, and the bare drafter."""
        pairing = self._pairing()
        if pairing is None or pairing.choice.store is None:
            return []
        warm = self._adapters.start(pairing.choice)
        found = [Start(True, pairing.choice.origin == "warm start", warm.meta.target)] if warm is not None else []
        return [*found, Start(False, pairing.choice.origin == "none")]

    def subject(self) -> tuple[str, str] | None:
        """The drafter and the family of vocabularies it learns for; None while none is loaded."""
        pairing = self._pairing()
        return (pairing.choice.drafter.stem, pairing.pair.target.family) if pairing is not None else None

    def history(self, limit: int = 50) -> list[Update]:
        """Updates, newest first; of all while nothing is loaded."""
        with self._looking() as history:
            return history.updates(limit, self._store_name()) if history else []

    def served_answers(self, limit: int = 500) -> list[ServedAnswer]:
        """The last answers, oldest first; with all while nothing is loaded."""
        with self._looking() as history:
            return history.served(limit, self._store_name()) if history else []

    def files(self) -> list[Part]:
        """Where everything learned in the profile lives, and how large it is."""
        return files_of(self._profile, self._adapters, self._cache)

    def _store_name(self) -> str | None:
        pairing = self._pairing()
        if pairing is None or pairing.choice.store is None:
            return None
        return self._adapters.store_name(pairing.choice.store)

    @contextmanager
    def _looking(self) -> Iterator[History | None]:
        with ExitStack() as looks:
            try:
                history = looks.enter_context(self._stores.looking())
            except OmniDraftError as error:
                log.warning("%s", error)
                history = None
            yield history


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
