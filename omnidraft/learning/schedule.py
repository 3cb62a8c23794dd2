"""When what is learned: one thread that stores answers, starts the training process when all is quiet, and follows it.

While an answer is being written the process is stopped, by a signal from the answering thread itself. What was made is
served at the next quiet moment. It knows neither pages nor what training computes.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omnidraft.config import LearningSettings
from omnidraft.errors import OmniDraftError
from omnidraft.learning import jobs
from omnidraft.learning.adapters import AdapterStore
from omnidraft.learning.collector import Answer, Pairing, record_of, served_by
from omnidraft.learning.facts import Update
from omnidraft.learning.job import Job
from omnidraft.learning.keeping import Keeping
from omnidraft.learning.live import has_fallen
from omnidraft.learning.process import TrainerProcess
from omnidraft.learning.progress import Event, advance, conclude
from omnidraft.learning.serving import Choice, Shelf
from omnidraft.learning.versions import Version

log = logging.getLogger("omnidraft.learning")
Kind = Literal["update", "compare", "merge"]
IDLE_SECONDS = 3.0  # quiet time before a process is started
RESUME_SECONDS = 1.0  # and before a stopped one goes on
TICK = 0.25
ATTEMPTS = 3  # of an update that something keeps ending from outside


@dataclass
class Run:
    """One run of the training process. why: the reason this program ended it."""

    kind: Kind
    pairing: Pairing
    job: Job
    update: Update | None = None
    process: TrainerProcess | None = None
    why: str | None = None


class Schedule:
    """pairing: what is loaded; run: the training process at work; last: the update before; held: stopped by the user;
    answering: answers being written; merged: whether the served version is one file with the drafter."""

    def __init__(
        self,
        keeping: Keeping,
        shelf: Shelf,
        cache: Path,
        settings: Callable[[], LearningSettings],
        serve: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self.settings, self._keeping, self._shelf, self._cache = settings, keeping, shelf, cache
        self._serve, self._changed = serve, changed
        self._lock = threading.RLock()
        self._inbox: queue.Queue[tuple] = queue.Queue()
        self._thread: threading.Thread | None = None
        self.pairing: Pairing | None = None
        self.run: Run | None = None
        self.last: Update | None = None
        self.held = self.merged = False
        self.answering = 0
        self._quiet_since = time.monotonic()
        self._swap_due = self._forced = False
        self._tables: dict[str, str] = {}
        self._scope = ""
        self._failed_with = 0  # fresh answers there were when an update failed: it takes another interval to try again
        self._attempts = 0
        self._unmergeable: Path | None = None
        self._compared: set[tuple] = set()
        self._fallen = False  # whether the served version's own answers call for a comparison

    # From other threads

    def begin(self, pairing: Pairing) -> None:
        with self._lock:
            self.pairing, self._scope, self.merged = pairing, "", pairing.choice.is_merged
            if self._thread is None and not self._keeping.refused:
                self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
                self._thread.start()
        self.wake()

    def end(self) -> None:
        """End the process and the thread, once the answers in the queue are stored."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(("end",))
            thread.join()
        self.pairing = None

    def serving(self, choice: Choice) -> None:
        with self._lock:
            if self.pairing is not None:
                self.pairing, self.merged = self.pairing.serving(choice), choice.is_merged
        self._changed()

    def answer_begins(self) -> None:
        with self._lock:
            self.answering += 1
            self._stop_process()

    def answer_ends(self) -> None:
        with self._lock:
            self.answering -= 1
            self._quiet_since = time.monotonic()
        self.wake()

    def hold(self, held: bool) -> None:
        with self._lock:
            self.held = held
            self._stop_process()
        self.wake()
        self._changed()

    def put(self, answer: Answer) -> None:
        self._inbox.put(("answer", answer, self.pairing))

    def force(self) -> None:
        self._forced = True
        self.wake()

    def wake(self) -> None:
        self._inbox.put(("wake",))

    def rollback(self) -> str:
        with self._lock:
            self._kill("An earlier version was taken up.")
            store = self.pairing.choice.store
            before, now = self._roll_back(store, "Rolled back by you.")
            self._swap_due = True
        self.wake()
        served = f"{now.name} is served" if now else "The drafter as it came is served"
        return f"{served} from the next answer on; {before.name if before else 'the last one'} is not used again."

    def doing(self) -> str:
        """What the process does, in a sentence."""
        if self.run.kind == "merge":
            return "Writing the drafter and what it learned as one file."
        if self.run.kind == "compare":
            return "Comparing the served version with the one before."
        update = self.run.update
        return f"Training on {update.answers_new} new and {update.answers_replayed} earlier answers."

    def idle_reason(self) -> str:
        fresh, interval = self._keeping.fresh, self.settings().interval
        if fresh >= interval and not self._keeping.enough:
            return f"{fresh} new answers; a few more are needed to judge an update by."
        return f"{min(fresh, interval)} of {interval} new answers until the next update."

    # The thread

    def _work(self) -> None:
        self._carefully(self._begin_with_what_is_there)
        while True:
            try:
                message = self._inbox.get(timeout=TICK if self._time_matters() else None)
            except queue.Empty:
                message = ("tick",)
            if message[0] == "end":
                break
            self._carefully(self._handle, message)
            if self._inbox.empty() and not self._carefully(self._act):
                self._swap_due = False  # it would fail again at once
        self._kill("The program was closed.")
        while self.run is not None:
            self._carefully(self._handle, self._inbox.get())

    def _begin_with_what_is_there(self) -> None:
        """Sweep up behind a writer that was killed, and count."""
        if (pairing := self.pairing) is not None and pairing.choice.store is not None:
            pairing.choice.store.prune()
        self._recount()
        self._changed()

    def _carefully(self, act: Callable, *values: object) -> bool:
        """Whether it went well. Nothing that goes wrong here may end learning for good, or the app."""
        try:
            act(*values)
            return True
        except (OmniDraftError, OSError) as error:
            log.warning("learning: %s", error)
            self._failed_with = self._keeping.fresh
        except Exception:
            log.exception("learning met a defect")
            self._failed_with = self._keeping.fresh
        return False

    def _time_matters(self) -> bool:
        with self._lock:
            return self.run is not None or self._swap_due or self._next_kind() is not None

    def _handle(self, message: tuple) -> None:
        if message[0] == "answer":
            self._keep(*message[1:])
        elif message[0] == "event":
            self._follow(*message[1:])

    def _keep(self, answer: Answer, pairing: Pairing) -> None:
        if self._keeping.history is not None:
            self._keeping.history.add_served(self._shelf.store_name(pairing.choice.store), served_by(answer, pairing))
        record = record_of(answer, pairing)
        if record is not None:
            self._keeping.add(record)
        self._fallen |= has_fallen(pairing.choice, self._shelf, self._keeping.history, self._compared)
        self._recount()
        self._changed()

    def _recount(self) -> None:
        pairing = self.pairing
        if pairing is not None and pairing.choice.store is not None:
            self._keeping.recount(self._known_tables(), pairing.choice.store.through)

    def _known_tables(self) -> dict[str, str]:
        scope = self.settings().scope
        if scope != self._scope:
            self._tables = jobs.tables(self._cache, self.pairing, scope)
            self._scope = scope
        return self._tables

    def _act(self) -> None:
        """Let the process go on or end it, serve what was made, or begin what is due."""
        with self._lock:
            if self.pairing is None:
                return
            run = self.run
            if run is not None and not self.settings().enabled:
                self._kill("Learning was switched off.")
            elif run is not None and run.process.paused and self._quiet(RESUME_SECONDS):
                run.process.resume()
                self._changed()
        if self._scope != self.settings().scope:
            self._swap_due = self._swap_due or self._scope != ""
            self._recount()
        if run is None and self._swap_due and not self.answering and self._serve():
            self._swap_due = False
            self._recount()
            self._changed()
        if run is None and not self._swap_due and self._quiet(IDLE_SECONDS) and (kind := self._next_kind()):
            self._start(kind)

    def _quiet(self, seconds: float) -> bool:
        return not self.held and not self.answering and time.monotonic() - self._quiet_since >= seconds

    def _next_kind(self) -> Kind | None:
        """What is due, whether or not it may begin now."""
        settings, pairing, keeping = self.settings(), self.pairing, self._keeping
        if pairing is None or pairing.choice.store is None or not settings.enabled or keeping.refused:
            return None
        if self.run is not None or self.held:
            return None
        needed = 1 if self._forced else settings.interval + self._failed_with
        if keeping.enough >= needed:
            return "update"
        if pairing.choice.lacks_merged and pairing.choice.merged != self._unmergeable:
            return "merge"
        return "compare" if self._fallen else None

    def _start(self, kind: Kind) -> None:
        settings, pairing, replay = self.settings(), self.pairing, self._keeping.replay.path
        if kind == "merge":
            job = jobs.merge_job(pairing, settings, replay)
        elif kind == "compare":
            self._fallen = False
            job = jobs.compare_job(pairing, settings, replay, self._known_tables())
        else:
            number = self._keeping.history.next_number()
            job = jobs.update_job(pairing, settings, replay, self._known_tables(), self._shelf.merged, number)
        run = Run(kind, pairing, job)
        if kind == "update":
            self._forced = False
            run.update = Update(number, time.time(), pairing.choice.drafter.stem, pairing.target, job.vocabulary)
            self._keeping.history.save(self._store_name(run), run.update)
        process = TrainerProcess(job, lambda event: self._inbox.put(("event", run, event)))
        with self._lock:
            run.process, self.run = process, run
            if self.answering or self.held:
                process.pause()
        self._changed()

    def _stop_process(self) -> None:
        if self.run is not None and (self.answering or self.held):
            self.run.process.pause()

    def _kill(self, why: str) -> None:
        with self._lock:
            if self.run is not None and self.run.why is None:
                self.run.why = why
                self.run.process.kill()

    def _store_name(self, run: Run) -> str:
        return self._shelf.store_name(run.pairing.choice.store)

    def _follow(self, run: Run, event: Event) -> None:
        """Take in what the process says."""
        store = run.pairing.choice.store
        if run.update is not None:
            run.update = advance(run.update, event)
        if event["event"] == "refused":
            store.reject_update(event["through"])
            if event.get("worse") == "old":
                self._keeping.quarantine(run.job.tables, run.job.through, event["through"])
        elif event["event"] == "compared" and event["other_is_better"]:
            self._roll_back(store, "Rolled back: what was served before accepts more of the last answers.")
        elif event["event"] == "ended":
            self._conclude(run, event)
        self._changed()

    def _roll_back(self, store: AdapterStore, why: str) -> tuple[Version | None, Version | None]:
        """What was served and what is served now; the history says why."""
        before, now = store.current(), store.rollback()
        if before is not None:
            log.info("%s: %s", before.name, why)
            if self._keeping.history is not None:
                self._keeping.history.add_reason(self._shelf.store_name(store), before.name, why)
        return before, now

    def _conclude(self, run: Run, event: Event) -> None:
        with self._lock:
            self.run = None
        if run.update is not None:
            run.update = self.last = conclude(run.update, event, run.why)
            self._keeping.history.save(self._store_name(run), run.update)
            self._reckon(run.update)
            run.pairing.choice.store.prune()
        elif run.kind == "merge" and event["code"]:
            self._unmergeable = run.pairing.choice.merged
        self._recount()
        with self._lock:
            self._swap_due = self.pairing is not None

    def _reckon(self, update: Update) -> None:
        """After a failure wait for another interval's answers; after an interruption only if it happens again."""
        self._attempts = self._attempts + 1 if update.outcome == "interrupted" else 0
        if update.outcome == "failed" or self._attempts >= ATTEMPTS:
            self._failed_with, self._attempts = self._keeping.fresh, 0
        elif update.outcome in ("published", "refused"):
            self._failed_with = 0
