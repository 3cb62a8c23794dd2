"""The training process as the app has it: started with a job, stopped for answers, kept for a while behind a job.

Loading its libraries and reading the drafter takes longer than many an update, so behind a job it waits for another
without computing, and goes when memory is wanted or the wait gets long. What is trained, and when, is not known here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import Version
from omnidraft.learning.facts import Update
from omnidraft.learning.material.history import OpenStores
from omnidraft.learning.material.record import Pairing
from omnidraft.learning.training_job import (
    Compared,
    Ended,
    Event,
    Finished,
    Kind,
    Refused,
    TrainingJob,
    advance,
    conclude,
    from_line,
    make_job,
)
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.vault import with_keys

OnEvent = Callable[[Event], None]
MODULE = "omnidraft.learning.training.process_main"
PARTS = ("replay", "adapters", "merged")  # what training reads and writes of an encrypted profile
SPARE = 0.2  # share of the machine's memory that must be free while a process only waits


class TrainingProcess:
    """At most one process, which does one job at a time. Methods may be called from any thread.

    A job's events come from a thread of this object's, the last one is `Ended`. The child leads a process group of its
    own in our session: if we are killed while it is stopped, the system wakes and ends it (an orphaned group with
    stopped members gets SIGHUP and SIGCONT); if it runs, it notices that stdin closed.
    """

    def __init__(self) -> None:
        self.paused = False
        self._child: LineChild | None = None
        self._reader = threading.Thread()
        self._belongings: tuple[str, str, str, int] | None = None  # of the job it was started with
        self._on_event: OnEvent | None = None  # of the job at work
        self._over = threading.Event()
        self._gone = False  # whether it has ended and all it said was heard
        self._waiting_since = 0.0
        self._lock = threading.Lock()
        self._changing = threading.Lock()  # held while a job begins, or the process goes because it has none

    @property
    def pid(self) -> int | None:
        """Of the process, at work or waiting; None while there is none."""
        return self._child.pid if self._child is not None and self._child.running else None

    @property
    def waiting(self) -> bool:
        """Whether it is there and has nothing to do."""
        return self._on_event is None and self.pid is not None

    def start(self, job: TrainingJob, on_event: OnEvent) -> None:
        """The process that waits does the job if it was started for the same profile, drafter and number of threads
        (all else that decides what comes of a job is in the job); else one that is started for it."""
        belongings = job.replay, job.drafter, job.fingerprint, job.threads
        with self._changing:
            if not self.waiting or belongings != self._belongings:
                self.kill()
                self._gone = False
                self._begin(on_event)
                self._belongings, self._child = belongings, LineChild(MODULE)
                self._reader = threading.Thread(target=self._read, args=(self._child,), name="training", daemon=True)
                self._reader.start()
                self._child.say(with_keys(job.to_line(), Path(job.store), PARTS))
            elif self._child is not None:
                self.resume()  # an answer may have begun just when the job before was over
                self._begin(on_event)
                self._child.say(job.to_line())
                if self._gone:  # it has just died, and nobody else would say so
                    self._end_job(Ended(self._child.process.returncode, ""))

    def pause(self) -> None:
        """Stop it where it is; takes effect within a millisecond or so and costs the caller microseconds."""
        with self._lock:
            if not self.paused and (pid := self.pid) is not None:
                system.suspend(pid)
                self.paused = True

    def resume(self) -> None:
        with self._lock:
            if self.paused and (pid := self.pid) is not None:
                system.resume(pid)
            self.paused = False

    def kill(self) -> None:
        """End it at once; what it has not published is lost, nothing else. Returns when its memory is released."""
        if self._child is not None:
            self._child.kill()
            if threading.current_thread() is not self._reader:
                self._reader.join()
            self.paused = False

    def let_go(self) -> None:
        """End the process if it only waits."""
        with self._changing:
            if self.waiting:
                self.kill()

    def let_go_unless(self, minutes: float) -> None:
        """End a process that has waited `minutes`, or while memory is short."""
        if (left := self.seconds_left(minutes)) is not None and (left <= 0 or _memory_is_short()):
            self.let_go()

    def seconds_left(self, minutes: float) -> float | None:
        """Until a process that waits has waited `minutes`; None while none does."""
        return max(0.0, self._waiting_since + 60 * minutes - time.monotonic()) if self.waiting else None

    def wait(self, seconds: float | None = None) -> bool:
        """Whether its job is over, and all events of it delivered."""
        return self._over.wait(seconds)

    def _begin(self, on_event: OnEvent) -> None:
        with self._lock:
            self._on_event, self._over = on_event, threading.Event()

    def _read(self, child: LineChild) -> None:
        for line in child.lines():
            if (event := from_line(line)) is not None and (on_event := self._on_event) is not None:
                on_event(event)
                if isinstance(event, Finished):
                    self._end_job(Ended(0, ""))
        code = child.ended()
        said = child.last_words().splitlines()
        self._gone = True  # before the job at work is taken: one that begins after that looks
        self._end_job(Ended(code, said[-1] if code and said else ""))

    def _end_job(self, ended: Ended) -> None:
        with self._lock:
            on_event, self._on_event, self._waiting_since = self._on_event, None, time.monotonic()
            over = self._over
        if on_event is not None:
            on_event(ended)
            over.set()


def _memory_is_short() -> bool:
    memory = psutil.virtual_memory()
    return memory.available < SPARE * memory.total


# One run of the training process: built from what is loaded, and what its events say brought to the stores. It knows
# nothing of processes, nor of when a run may begin or has to stop.


log = logging.getLogger("omnidraft.learning")


@dataclass
class TrainingRun:
    """One run of the training process. why: the reason this program ended it."""

    kind: Kind
    pairing: Pairing
    job: TrainingJob
    update: Update | None = None
    why: str | None = None

    @property
    def store(self) -> AdapterStore:
        return self.pairing.choice.learned_in

    def doing(self) -> str:
        """What the process does, in a sentence."""
        if self.kind == "merge":
            return "Writing the drafter and what it learned as one file."
        if self.kind == "compare":
            return "Comparing the served version with the one before."
        assert self.update is not None
        return f"Training on {self.update.answers_new} new and {self.update.answers_replayed} earlier answers."


class TrainingRuns:
    """Prepares runs and follows them; history, stores and replay hear what came of them."""

    def __init__(self, keeping: OpenStores, adapters: Adapters) -> None:
        self._keeping, self._adapters = keeping, adapters

    def prepare(
        self, kind: Kind, pairing: Pairing, settings: LearningSettings, tables: dict[str, str], *, asked: bool = False
    ) -> TrainingRun:  # fmt: skip
        """A run whose process is not started yet; an update is in the history from now on. asked: by the user."""
        (replay, history), choice = self._keeping.files, pairing.choice
        number = history.next_number()
        job = make_job(
            kind, choice, pairing.pair.target.fingerprint, pairing.target, settings, replay.path, tables,
            self._adapters.merged, number, asked=asked,
        )  # fmt: skip
        if kind != "update":
            return TrainingRun(kind, pairing, job)
        update = Update(number, time.time(), pairing.choice.drafter.stem, pairing.target, job.vocabulary)
        history.save(self._adapters.store_name(choice.learned_in), update)
        return TrainingRun(kind, pairing, job, update)

    def follow(self, run: TrainingRun, event: Event) -> None:
        """Take in what the process says while it runs."""
        if run.update is not None:
            run.update = advance(run.update, event)
        if isinstance(event, Refused):
            run.store.reject_update(event.through)
        elif isinstance(event, Compared) and event.other_is_better:
            why = "Rolled back: what was served before accepts more of the last answers."
            self.roll_back(run.store, run.pairing.choice.version, why)

    def conclude(self, run: TrainingRun, event: Ended) -> None:
        """Take in that the job is over."""
        if run.update is not None:
            run.update = conclude(run.update, event, run.why)
            _, history = self._keeping.files
            history.save(self._adapters.store_name(run.store), run.update)
            run.store.prune()

    def go_back(self, store: AdapterStore, served: Version) -> str:
        """Roll back because the user wants it. Returns a sentence."""
        before, now = self.roll_back(store, served, "Rolled back by you.")
        what = f"{now.name} is served" if now else "The drafter as it came is served"
        return f"{what} from the next answer on; {before.name if before else 'the last one'} is not used again."

    def choose(self, now: Choice, version: str | None, warm: bool) -> str:
        """Serve what the user chose in place of what is served `now`. Returns a sentence."""
        chosen = now.learned_in.choose(version, warm)
        if now.origin == "own" and now.version is not None and self._keeping.history is not None:
            why = f"Left by you for {chosen.name if chosen else 'what it learned elsewhere' if warm else 'none'}."
            self._keeping.history.add_reason(self._adapters.store_name(now.learned_in), now.version.name, why)
        what = "What it learned for another vocabulary" if warm else "The drafter as it came"
        return f"{f'Version {chosen.number}' if chosen else what} is served from the next answer on."

    def roll_back(self, store: AdapterStore, before: Version | None, why: str) -> tuple[Version | None, Version | None]:
        """What was served (`before`) and what is served now; the history says why."""
        now = store.rollback(before)
        if before is not None:
            log.info("%s: %s", before.name, why)
            if self._keeping.history is not None:
                self._keeping.history.add_reason(self._adapters.store_name(store), before.name, why)
        return before, now
