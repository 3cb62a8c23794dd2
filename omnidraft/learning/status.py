"""What learning tells of itself: how it stands, and the versions with what they did, for pages and commands.

Looks and changes nothing; which of it is asked for when is `Learner`'s.
"""

from __future__ import annotations

from contextlib import suppress

import psutil

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.facts import State, Status, VersionInfo
from omnidraft.learning.material.history import History
from omnidraft.learning.material.keeping import Keeping
from omnidraft.learning.schedule import Schedule
from omnidraft.storage.paths import measured


def status_of(schedule: Schedule, keeping: Keeping, version: int, active: bool, why_not: str) -> Status:
    """Everything at a glance. version: of what is told; active, why_not: see `Learner`."""
    settings, run, pairing = schedule.settings(), schedule.run, schedule.pairing
    state, reason = _state(schedule, keeping, active, why_not)
    choice = pairing.choice if pairing is not None else None
    pid = run.process.pid if run is not None and run.process is not None else None
    return Status(
        version=version, state=state, reason=reason, waiting=keeping.fresh, interval=settings.interval,
        held=schedule.held, update=run.update if run is not None else None, last=schedule.last,
        served=choice.version.name if choice is not None and choice.version is not None else None,
        origin=choice.origin if choice is not None else "none", merged=schedule.merged, pid=pid,
        memory_mb=_memory(pid), replay_answers=keeping.answers, replay_tokens=keeping.tokens,
        replay_bytes=keeping.bytes, replay_limit=int(settings.replay_mb * 1e6),
    )  # fmt: skip


def _state(schedule: Schedule, keeping: Keeping, active: bool, why_not: str) -> tuple[State, str]:
    run, settings = schedule.run, schedule.settings()
    if not active or keeping.refused:
        return "unavailable", why_not or keeping.refused
    if not settings.enabled:
        return "off", "Learning is switched off."
    if schedule.pairing is None:
        return "unavailable", "No drafter is loaded yet; the first question loads it."
    if schedule.held:
        return "paused", "Paused by you."
    if run is not None and schedule.answering:
        return "paused", "Paused while an answer is being written."
    if run is not None:
        return "training", run.doing()
    if schedule.answering:
        return "idle", "An answer is being written."
    return "idle", schedule.due.idle_reason(settings.interval)


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
