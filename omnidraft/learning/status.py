"""What learning tells of itself: how it stands, and the versions with what they did, for pages and commands.

Looks and changes nothing; which of it is asked for when is `Learner`'s.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.facts import State, Status, VersionInfo
from omnidraft.learning.material.history import History
from omnidraft.learning.material.replay import LIMIT_MB
from omnidraft.storage.paths import measured

if TYPE_CHECKING:
    from omnidraft.learning.learner import Learner


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
