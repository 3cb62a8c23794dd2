"""When a drafter learns: one thread stores answers, has updates trained when all is quiet, and has them served.

Answers come first: one costs its writer no more than a place in a queue, and while one is being written the training
process is stopped, by a signal from the answering thread itself. The app side needs no torch. What is kept and what is
known of it is the store's, what training computes the process's, what to serve and the swap itself the assistant's; no
page is known.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import psutil

from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.serving import Choice, Origin
from omnidraft.learning.material.record import Answered, Pairing
from omnidraft.learning.store import Counts, LearningStore
from omnidraft.learning.training.process import TrainingProcess
from omnidraft.learning.update import Job, Update
from omnidraft.settings.config import LearningSettings

log = logging.getLogger("omnidraft.learning")
TICK = 0.25
HOUR = 3600.0  # seconds
MINUTES_PER_HOUR = 10.0  # of processors that training takes before it waits for the next
Standing = Literal["off", "unavailable", "idle", "due", "training", "paused"]


@dataclass
class Waits:
    """Seconds of quiet before a process is started, and before a stopped one goes on."""

    start: float = 3.0
    resume: float = 1.0


@dataclass(frozen=True, slots=True)
class Status:
    """How learning stands, at a glance.

    version grows with every change. state: off (in the settings), unavailable (nothing to train, or another program
    does), idle (waits for answers), due (has enough of them and waits for a quiet moment), training (whatever
    `update.state` it is in), paused (stopped for an answer, other long work or by the user: `held`). reason: a
    sentence. kept: what there is to learn from; interval: an update begins at so many new answers. update: the one that
    runs; last: the one before. served: version name, None for the bare drafter; merged: served as one file with the
    drafter. memory_mb: of the training process, None while nothing is trained.
    """

    version: int
    state: Standing
    reason: str
    kept: Counts
    interval: int
    held: bool
    update: Update | None
    last: Update | None
    served: str | None
    origin: Origin
    merged: bool
    memory_mb: float | None


class Scheduler:
    """The drafter of one profile. Methods may be called from any thread.

    settings: gives the present learning settings; serve: swaps to what the store says now, False if it cannot yet.
    waits: how long all must be quiet before anything is trained; machine: why the machine should not train now, in a
    sentence, "" if it may; meanwhile: what long work keeps it, likewise.
    """

    def __init__(
        self, store: LearningStore, settings: Callable[[], LearningSettings], serve: Callable[[], bool]
    ) -> None:
        self.waits = Waits()
        self.machine: Callable[[], str] = Machine().why_wait
        self.meanwhile: Callable[[], str] = str
        self._store, self._settings, self._serve = store, settings, serve
        self._process = TrainingProcess()
        self._changed = threading.Condition()  # of what follows
        self._version = 0
        self._job: Job | None = None  # which runs; its update is as far as that is
        self._last: Update | None = None
        self._held = False  # by the user
        self._forced = False  # the user wants an update, however few answers there are
        self._failed_with = 0  # fresh answers there were when an update failed: it takes another interval to try again
        self._swap_due = False
        self._answering = 0  # answers being written
        self._quiet_since = time.monotonic()
        self._inbox: queue.Queue[Callable[[], object] | None] = queue.Queue()  # for the thread; None ends it
        self._thread: threading.Thread | None = None

    # Called by the assistant

    @property
    def wants_answers(self) -> bool:
        """Whether answers should carry the target's distributions."""
        return not self._store.refused and self._settings().enabled and self._store.pairing is not None

    def paired(self, pairing: Pairing) -> None:
        """Learn for this drafter and target from now on."""
        self._store.pair(pairing)
        if not self._store.refused:
            self._inbox.put(self._store.tidy)
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
                    self._thread.start()
        self._note_change()

    def unpaired(self) -> None:
        """No drafter is loaded any more: end the process and the thread, once the answers in the queue are stored.
        Harmless when repeated."""
        with self._changed:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(None)
            thread.join()
        self._store.pair(None)
        self._note_change()

    def serving(self, choice: Choice) -> None:
        """Another version is served."""
        if (pairing := self._store.pairing) is not None:
            self._store.pair(replace(pairing, choice=choice))
        self._note_change()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Somebody waits for what is done inside: the training process stops at once."""
        with self._changed:
            self._answering += 1
            self._stop_process()
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._quiet_since = time.monotonic()
            self.wake()

    def take(self, answer: Answered) -> None:
        """Keep a finished answer for learning; returns at once."""
        if self.wants_answers and answer.request.source is not None and (pairing := self._store.pairing) is not None:
            self._inbox.put(partial(self._store.keep, answer, pairing))

    def wake(self) -> None:
        """Something else may be due: the settings changed, or what is loaded."""
        if self._thread is not None:
            self._inbox.put(bool)
        self._note_change()

    def free_memory(self) -> None:
        """End the process if it only waits for another update."""
        self._process.let_go()

    # For pages and commands

    def status(self) -> Status:
        with self._changed:
            state, reason = self._standing()
            choice = self._store.pairing.choice if self._store.pairing is not None else None
            return Status(
                self._version, state, reason, self._store.counts, self._interval(), self._held,
                update=self._job.update if self._job is not None else None, last=self._last,
                served=choice.version.name if choice is not None and choice.version else None,
                origin=choice.origin if choice is not None else "none",
                merged=choice is not None and choice.merged is not None,
                memory_mb=self._process.memory_mb() if self._job is not None else None,
            )  # fmt: skip

    def _standing(self) -> tuple[Standing, str]:
        """State and reason."""
        if self._store.refused:
            return "unavailable", self._store.refused
        if not self._settings().enabled:
            return "off", "Learning is switched off."
        if self._held:
            return "paused", "Paused by you."
        if words := self.meanwhile():
            return "paused", words
        if self._store.pairing is None:
            return "unavailable", "No drafter is loaded yet; the first question loads it."
        if self._job is not None and self._answering:
            return "paused", "Paused while an answer is being written."
        if self._job is not None:
            return "training", self._job.update.doing()
        due = self._is_due()
        if self._answering:
            return "due" if due else "idle", "An answer is being written."
        if not due:
            return "idle", self._too_few()
        if self._forced:
            return "due", "Training begins as soon as no answer is being written."
        waits_for = self._why_wait()
        return "due", waits_for or "Enough answers are new; training begins once nobody asked for a while."

    def _too_few(self) -> str:
        """Why no update is due, in a sentence."""
        fresh, interval = self._store.counts.fresh, self._interval()
        if fresh >= interval and not self._store.counts.enough:
            return f"{fresh} new answers; a few more are needed to judge an update by."
        return (
            f"The next update begins at {interval} new answers (of models with this vocabulary); "
            f"{min(fresh, interval)} so far."
        )

    def wait(self, seen: int, timeout: float) -> None:
        """Block until `status().version` is not `seen`, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, timeout)

    def hold(self, held: bool = True) -> None:
        """Stop training until somebody lets it go on (`held` False)."""
        with self._changed:
            self._held = held
            self._stop_process()
        self.wake()

    def train_now(self) -> str:
        """Begin an update as soon as no answer is being written, however few answers there are. Returns why not, in a
        sentence; "" if it will."""
        status = self.status()
        if self._store.pairing is None or status.state in ("off", "unavailable"):
            return status.reason
        if not status.kept.enough:
            return "There is nothing new to learn from yet; a few more answers are needed."
        self._forced = True
        self.wake()
        return ""

    def choose(self, version: str | None, warm: bool = False) -> str:
        """As `LearningStore.choose`; an update that runs would be of what is served no more, and ends."""
        with self._changed:
            self._process.kill("Another version was chosen.")
            said = self._store.choose(version, warm)
            self._swap_due = True
        self.wake()
        return said

    # The thread

    def _work(self) -> None:
        while (call := self._next()) is not None:
            with self._carefully():
                call()
            with self._carefully():
                if self._inbox.empty():
                    self._go_on()
                    self._begin_due()
        self._process.kill("The program was closed.")
        while self._job is not None:
            if call := self._inbox.get():
                with self._carefully():
                    call()

    def _next(self) -> Callable[[], object] | None:
        """What to do next; nothing (`bool`) at every tick while time matters."""
        try:
            timed = self._swap_due or self._job is not None or self._is_due()
            return self._inbox.get(timeout=TICK if timed else None)
        except queue.Empty:
            return bool

    @contextmanager
    def _carefully(self) -> Iterator[None]:
        """Nothing that goes wrong here may end learning for good, or the app."""
        try:
            yield
            return
        except (OmniDraftError, OSError) as error:
            log.warning("learning: %s", error)
        except Exception:
            log.exception("learning met a defect")
        self._failed_with = self._store.counts.fresh  # it would go wrong again at once

    def _go_on(self) -> None:
        """Let the process go on or end it, and serve what was made."""
        with self._changed:
            if not self._settings().enabled:
                self._process.kill("Learning was switched off.")
            elif self._job is not None and self._process.paused and self._quiet(self.waits.resume):
                self._process.resume()
                self._note_change()
        if self._job is None and self._swap_due and not self._answering:
            self._swap_due = False  # where it fails, it would fail again at once
            if self._serve():
                self._store.tidy()
                self._note_change()
            else:
                self._swap_due = True

    def _is_due(self) -> bool:
        """Whether an update may begin at the next quiet moment."""
        idle = self._job is None and not self._held and self._store.pairing is not None
        needed = 1 if self._forced else self._interval() + self._failed_with
        return idle and self._settings().enabled and self._store.counts.enough >= needed

    def _interval(self) -> int:
        """New answers that the next update takes."""
        return self._store.counts.needed(self._settings().interval)

    def _quiet(self, seconds: float) -> bool:
        return not self._held and not self._answering and time.monotonic() - self._quiet_since >= seconds

    def _why_wait(self) -> str:
        """Why what is due would be in the way of something else, in a sentence; "" if it is not, or the user wants it.

        What an update will take is what the last one took. One an hour may be longer than the hour's share.
        """
        if self._forced:
            return ""
        kept = self._store.counts
        spent = kept.spent(HOUR)
        if spent and spent + kept.costs[0][1] > 60 * MINUTES_PER_HOUR:
            return f"Training waits: {spent / 60:.1f} of {MINUTES_PER_HOUR:g} processor minutes an hour are used."
        return self.machine()

    def _begin_due(self) -> None:
        """Begin what is due, if all is quiet."""
        if not self._is_due() or self._swap_due or not self._quiet(self.waits.start) or self._why_wait():
            return
        job = self._store.begin(self._settings(), asked=self._forced)
        self._forced = False
        self._process.start(job, lambda update: self._inbox.put(partial(self._follow, update)))
        with self._changed:
            self._job = job
            self._stop_process()
        self._note_change()

    def _stop_process(self) -> None:
        if self._job is not None and (self._answering or self._held):
            self._process.pause()

    def _follow(self, update: Update) -> None:
        """Take in how far the process is; when it is done, have what was made served."""
        assert self._job is not None
        job = replace(self._job, update=update)
        if update.ended is None:
            self._job = job
        else:
            try:
                self._store.end(job)
                made = update.outcome in ("published", "refused")
                # What went wrong, or was ended from outside, would be so again at once.
                self._failed_with = 0 if made else self._store.counts.fresh
            finally:
                self._job, self._last, self._swap_due = None, update, True
        self._note_change()

    def _note_change(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()


BUSY = 0.6  # share of the processor that others may use
PATIENCE = 600.0  # seconds after which training begins on a busy machine too, at the lowest priority
LOOK, FRESH = 1.0, 30.0  # seconds: a load over less is noise; one over more may be an answer's that was written then


class Machine:
    """Whether it is free for training: not on its battery, and not at work for something else. Is asked again and again
    while something is due."""

    def __init__(self) -> None:
        self._looked, self._busy_since, self._said = float("-inf"), 0.0, ""

    def why_wait(self) -> str:
        """Why training should not begin now, in a sentence; "" if it may."""
        now = time.monotonic()
        passed = now - self._looked
        if passed >= LOOK:
            self._looked, load = now, psutil.cpu_percent() / 100
            self._said = self._say(now, load) if passed < FRESH else "Training begins when the machine is quiet."
        return self._said

    def _say(self, now: float, load: float) -> str:
        if _on_battery():
            return "Training waits until the machine is plugged in."
        self._busy_since = (self._busy_since or now) if load > BUSY else 0.0
        if self._busy_since and now - self._busy_since < PATIENCE:
            return "Training waits while other programs use the processor."
        return ""


def _on_battery() -> bool:
    """False where nobody knows."""
    look = getattr(psutil, "sensors_battery", None)
    battery = look() if look is not None else None
    return battery is not None and battery.power_plugged is False
