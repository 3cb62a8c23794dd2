"""What learning should do next, whether the hour has room for it, and how long to leave it after something failed. It
starts nothing.

Also whether a served version should be looked at again: by acceptance of its own answers against those before it.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import fmean

import numpy as np
import psutil

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.facts import Update
from omnidraft.learning.material.history import History, OpenStores, acceptance
from omnidraft.learning.material.record import Pairing
from omnidraft.learning.training_job import Kind
from omnidraft.learning.training_process import TrainingRun
from omnidraft.settings.config import LearningSettings

LIVE_ANSWERS = 50  # served by a version before its acceptance says something
FEWEST_BEFORE = 10
LEAST_FALL = 0.01
HOUR = 3600.0  # seconds
MINUTES_PER_HOUR = 10.0  # of processors that training takes before it waits for the next
ATTEMPTS = 3  # of an update that something keeps ending from outside


class UpdateTrigger:
    """forced: the user wants an update, however few answers there are."""

    def __init__(self, keeping: OpenStores) -> None:
        self._keeping = keeping
        self.forced = False
        self._failed_with = 0  # fresh answers there were when an update failed: it takes another interval to try again
        self._attempts = 0
        self._unmergeable: Path | None = None
        self._compared: set[tuple] = set()
        self._fallen = False  # whether the served version's own answers call for a comparison

    def paired(self) -> None:
        """Something else was loaded: what its predecessor's answers called for is not due."""
        self._fallen = False

    def kind(self, pairing: Pairing | None, settings: LearningSettings) -> Kind | None:
        """What is due, whether or not it may begin now."""
        if pairing is None or pairing.choice.store is None or not settings.enabled or self._keeping.refused:
            return None
        needed = 1 if self.forced else settings.interval + self._failed_with
        if self._keeping.enough >= needed:
            return "update"
        if pairing.choice.lacks_merged and pairing.choice.merged != self._unmergeable:
            return "merge"
        return "compare" if self._fallen and pairing.choice.origin == "own" else None

    def why_wait(self) -> str:
        """Why the hour has no room for what is due, in a sentence; "" if it has, or the user wants it now.

        What an update will take is what the last one took. One an hour may be longer than the hour's share.
        """
        history = self._keeping.history
        if self.forced or history is None or not (spent := history.spent(HOUR)):
            return ""
        last = next((took for _, took in history.costs()), 0.0)
        if spent + last <= 60 * MINUTES_PER_HOUR:
            return ""
        return f"Training waits: {spent / 60:.1f} of {MINUTES_PER_HOUR:g} processor minutes an hour are used."

    def begins(self, kind: Kind) -> None:
        """It is not due any more."""
        if kind == "compare":
            self._fallen = False
        elif kind == "update":
            self.forced = False

    def look_at(self, pairing: Pairing, adapters: Adapters) -> None:
        """Another answer was counted for the version served: does it accept less than the one before?"""
        self._fallen |= has_fallen(pairing.choice, adapters, self._keeping.history, self._compared)

    def ended(self, run: TrainingRun, code: int | None) -> None:
        """After a failure wait for another interval's answers; after an interruption only if it happens again."""
        if run.kind == "merge" and code:
            self._unmergeable = run.pairing.choice.merged
        elif run.update is not None:
            self._reckon(run.update)

    def failed(self) -> None:
        """Something went wrong that would go wrong again at once."""
        self._failed_with = self._keeping.fresh

    def idle_reason(self, interval: int) -> str:
        """Why no update begins, in a sentence. interval: answers one takes."""
        fresh = self._keeping.fresh
        if fresh >= interval and not self._keeping.enough:
            return f"{fresh} new answers; a few more are needed to judge an update by."
        return (
            f"The next update begins at {interval} new answers (of models with this vocabulary); "
            f"{min(fresh, interval)} so far."
        )

    def _reckon(self, update: Update) -> None:
        self._attempts = self._attempts + 1 if update.outcome == "interrupted" else 0
        if update.outcome == "failed" or self._attempts >= ATTEMPTS:
            self.failed()
            self._attempts = 0
        elif update.outcome in ("published", "refused"):
            self._failed_with = 0


def has_fallen(choice: Choice, adapters: Adapters, history: History | None, looked: set[tuple]) -> bool:
    """True once per `LIVE_ANSWERS` answers that accept clearly less than those of the version before.

    That alone proves nothing, for the subjects may have changed: it is the occasion to compare both versions on the
    same answers. looked: what was answered with True before; added to.
    """
    if choice.origin != "own" or history is None:
        return False
    store, version = adapters.store_name(choice.learned_in), choice.learned.name
    mine = acceptance(history.served(LIVE_ANSWERS, store, version))
    if len(mine) < LIVE_ANSWERS:
        return False
    occasion = (store, version, history.live(store)[version][0] // LIVE_ANSWERS)
    if occasion in looked:
        return False
    previous = choice.learned_in.previous()
    before = acceptance(history.served(LIVE_ANSWERS, store, previous.name if previous else ""))
    looked.add(occasion)
    return len(before) >= FEWEST_BEFORE and fmean(before) - fmean(mine) > max(LEAST_FALL, _error(mine, before))


def _error(a: list[float], b: list[float]) -> float:
    """Standard error of the difference of two means."""
    return float(np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b)))


# Whether the machine is free for training: not on its battery, and not at work for something else.


BUSY = 0.6  # share of the processor that others may use
PATIENCE = 600.0  # seconds after which training begins on a busy machine too, at the lowest priority
LOOK, FRESH = 1.0, 30.0  # seconds: a load over less is noise; one over more may be an answer's that was written then


class Machine:
    """Is asked again and again while something is due. busy: above 1 for any load."""

    def __init__(self) -> None:
        self.busy = BUSY
        self._looked, self._busy_since, self._said = float("-inf"), 0.0, ""

    def why_wait(self) -> str:
        """Why training should not begin now, in a sentence; "" if it may."""
        if self.busy > 1:
            return ""
        now = time.monotonic()
        passed = now - self._looked
        if passed >= LOOK:
            self._looked, load = now, psutil.cpu_percent() / 100
            self._said = self._say(now, load) if passed < FRESH else "Training begins when the machine is quiet."
        return self._said

    def _say(self, now: float, load: float) -> str:
        if _on_battery():
            return "Training waits until the machine is plugged in."
        self._busy_since = (self._busy_since or now) if load > self.busy else 0.0
        if self._busy_since and now - self._busy_since < PATIENCE:
            return "Training waits while other programs use the processor."
        return ""


def _on_battery() -> bool:
    """False where nobody knows."""
    look = getattr(psutil, "sensors_battery", None)
    battery = look() if look is not None else None
    return battery is not None and battery.power_plugged is False
