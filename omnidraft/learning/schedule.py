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

from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.due import Due
from omnidraft.learning.facts import Update
from omnidraft.learning.job import Kind
from omnidraft.learning.material.capture import Answered, Pairing
from omnidraft.learning.material.expansions import table_files
from omnidraft.learning.material.keeping import Keeping
from omnidraft.learning.trainer_events import Ended, Event
from omnidraft.learning.trainer_runs import Run, Runs
from omnidraft.settings.config import LearningSettings

log = logging.getLogger("omnidraft.learning")
TICK = 0.25


@dataclass
class Waits:
    """Seconds of quiet before a process is started, and before a stopped one goes on."""

    start: float = 3.0
    resume: float = 1.0


class Schedule:
    """pairing: what is loaded; run: the training process at work; last: the update before; held: stopped by the user;
    answering: answers being written; merged: whether one file with the drafter is served; due: what to do next."""

    def __init__(
        self,
        keeping: Keeping,
        adapters: Adapters,
        cache: Path,
        settings: Callable[[], LearningSettings],
        serve: Callable[[], bool],
        changed: Callable[[], None],
        waits: Waits,
    ) -> None:
        self.settings, self._keeping, self._adapters, self._cache = settings, keeping, adapters, cache
        self._serve, self._changed, self._waits = serve, changed, waits
        self.due, self._runs = Due(keeping), Runs(keeping, adapters)
        self._lock = threading.RLock()
        self._inbox: queue.Queue[tuple] = queue.Queue()
        self._thread: threading.Thread | None = None
        self.pairing: Pairing | None = None
        self.run: Run | None = None
        self.last: Update | None = None
        self.held = self.merged = False
        self.answering = 0
        self._quiet_since = time.monotonic()
        self._swap_due = False
        self._tables: dict[str, str] = {}
        self._scope = ""

    # From other threads

    def begin(self, pairing: Pairing) -> None:
        with self._lock:
            self.pairing, self._scope, self.merged = pairing, "", pairing.choice.is_merged
            self.due.paired()
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

    def put(self, answer: Answered) -> None:
        self._inbox.put(("answer", answer, self.pairing))

    def force(self) -> None:
        self.due.forced = True
        self.wake()

    def spare_memory(self) -> None:
        """End a training process that only waits for its next job."""
        self._runs.trainer.let_go()

    def wake(self) -> None:
        self._inbox.put(("wake",))

    def rollback(self) -> str:
        with self._lock:
            self._kill("An earlier version was taken up.")
            assert self.pairing is not None
            choice = self.pairing.choice
            said = self._runs.go_back(choice.learned_in, choice.learned)
            self._swap_due = True
        self.wake()
        return said

    def choose(self, version: str | None, warm: bool) -> str:
        """Serve what somebody chose; a sentence about it. StorageError if it is not there."""
        with self._lock:
            self._kill("Another version was chosen.")
            assert self.pairing is not None
            said = self._runs.choose(self.pairing.choice, version, warm)
            self._swap_due = True
        self.wake()
        return said

    # The thread

    def _work(self) -> None:
        self._carefully(self._begin_with_what_is_there)
        while True:
            try:
                message = self._inbox.get(timeout=self._patience())
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
        self.spare_memory()

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
        except Exception:
            log.exception("learning met a defect")
        self.due.failed()
        return False

    def _patience(self) -> float | None:
        """Seconds to wait for a message: a tick while time matters, else until the waiting process is to be ended."""
        with self._lock:
            if self.run is not None or self._swap_due or self._next_kind() is not None:
                return TICK
        return self._runs.trainer.seconds_left(self.settings().keep_minutes)

    def _handle(self, message: tuple) -> None:
        if message[0] == "answer":
            self._keep(*message[1:])
        elif message[0] == "event":
            self._follow(*message[1:])

    def _keep(self, answer: Answered, pairing: Pairing) -> None:
        self._keeping.keep(answer, pairing, self._adapters.store_name(pairing.choice.learned_in))
        self.due.look_at(pairing, self._adapters)
        self._recount()
        self._changed()

    def _recount(self) -> None:
        pairing = self.pairing
        if pairing is not None and pairing.choice.store is not None:
            drafter = pairing.pair.drafter.fingerprint
            self._keeping.recount(drafter, self._known_tables(), pairing.choice.store.through)

    def _known_tables(self) -> dict[str, str]:
        assert self.pairing is not None
        scope = self.settings().scope
        if scope != self._scope:
            self._tables = table_files(self._cache, self.pairing.pair, scope)
            self._scope = scope
        return self._tables

    def _act(self) -> None:
        """Let the process go on or end it, serve what was made, or begin what is due."""
        settings = self.settings()
        self._runs.trainer.look(settings.keep_minutes if settings.enabled else 0.0)
        with self._lock:
            if (pairing := self.pairing) is None:
                return
            run = self.run
            if run is not None and not settings.enabled:
                self._kill("Learning was switched off.")
            elif run is not None and run.running.paused and self._quiet(self._waits.resume):
                run.running.resume()
                self._changed()
        if self._scope != settings.scope:
            self._recount()
        self._swap_due = self._swap_due or not pairing.choice.fits(settings.scope)
        if run is None and self._swap_due and not self.answering and self._serve():
            self._swap_due = False
            self._recount()
            self._changed()
        if run is None and not self._swap_due and self._quiet(self._waits.start) and (kind := self._next_kind()):
            self._start(kind)

    def _quiet(self, seconds: float) -> bool:
        return not self.held and not self.answering and time.monotonic() - self._quiet_since >= seconds

    def _next_kind(self) -> Kind | None:
        """What is due and may begin at the next quiet moment."""
        return None if self.run is not None or self.held else self.due.kind(self.pairing, self.settings())

    def _start(self, kind: Kind) -> None:
        assert self.pairing is not None
        asked = self.due.forced
        self.due.begins(kind)
        tables = {} if kind == "merge" else self._known_tables()
        run = self._runs.prepare(kind, self.pairing, self.settings(), tables, asked=asked)
        self._runs.start(run, lambda event: self._inbox.put(("event", run, event)))
        with self._lock:
            self.run = run
            self._stop_process()
        self._changed()

    def _stop_process(self) -> None:
        if self.run is not None and (self.answering or self.held):
            self.run.running.pause()

    def _kill(self, why: str) -> None:
        with self._lock:
            if self.run is not None and self.run.why is None:
                self.run.why = why
                self.run.running.kill()

    def _follow(self, run: Run, event: Event) -> None:
        """Take in what the process says."""
        self._runs.follow(run, event)
        if isinstance(event, Ended):
            self._conclude(run, event)
        self._changed()

    def _conclude(self, run: Run, event: Ended) -> None:
        with self._lock:
            self.run = None
        self._runs.conclude(run, event)
        self.last = run.update or self.last
        self.due.ended(run, event.code)
        self._recount()
        with self._lock:
            self._swap_due = self.pairing is not None
