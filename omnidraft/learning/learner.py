"""When a drafter learns: one thread stores answers, has updates trained when all is quiet, and has them served.

Answers come first: one costs its writer no more than a place in a queue, and while one is being written the training
process is stopped, by a signal from the answering thread itself. The app side needs no torch. What training computes
is not known here, nor are pages; what to serve, and the swap itself, is the assistant's.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.learned import Learned, Status
from omnidraft.learning.material.history import OpenStores
from omnidraft.learning.material.record import Answered, Pairing
from omnidraft.learning.material.replay import table_file
from omnidraft.learning.training.process import TrainingProcess
from omnidraft.learning.update import State, Update, Updates
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import ProfilePaths

log = logging.getLogger("omnidraft.learning")
TICK = 0.25


@dataclass
class Waits:
    """Seconds of quiet before a process is started, and before a stopped one goes on."""

    start: float = 3.0
    resume: float = 1.0


class Learner:
    """What a profile's drafter learns. Methods may be called from any thread.

    settings: gives the present learning settings; serve: swaps to what the store says now, False if it cannot yet;
    active False: looks at what is there, keeps nothing and trains nothing; why_not: the sentence for that. waits: how
    long all must be quiet before anything is trained. learned: what there is so far. pairing: what is loaded; updates:
    what is due and what runs; last: the update before; held: stopped by the user; answering: answers being written;
    waits_for: why what is due does not begin, if it is the machine or the hour that it waits for; meanwhile: what long
    work keeps the machine, in a sentence, "" if none does.
    """

    def __init__(
        self,
        profile: ProfilePaths,
        cache: Path,
        adapters: Adapters,
        settings: Callable[[], LearningSettings],
        serve: Callable[[], bool],
        *,
        active: bool,
        why_not: str = "",
    ) -> None:
        self.active, self.why_not, self.waits = active, why_not, Waits()
        self.profile, self.cache, self.adapters = profile, cache, adapters
        self.settings, self._serve = settings, serve
        self.stores = OpenStores(profile)
        self.updates, self.learned = Updates(self.stores, adapters), Learned(self)
        self.process, self.machine = TrainingProcess(), Machine()
        self.pairing: Pairing | None = None
        self.last: Update | None = None
        self.held = False
        self.waits_for = ""
        self.meanwhile: Callable[[], str] = str
        self.answering = 0
        self._lock = threading.RLock()
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self._inbox: queue.Queue[tuple | None] = queue.Queue()  # calls for the thread; None ends it
        self._thread: threading.Thread | None = None
        self._quiet_since = time.monotonic()
        self._swap_due = False

    # Called by the assistant

    @property
    def wants_answers(self) -> bool:
        """Whether answers should carry the target's distributions."""
        return self.active and not self.stores.refused and self.settings().enabled and self.pairing is not None

    def paired(self, pairing: Pairing) -> None:
        """Learn for this drafter and target from now on."""
        if not self.active:
            self.pairing = pairing
            self._note_change()
            return
        try:
            self.stores.open()
        except StorageError as error:
            log.warning("%s", error)
            self.stores.refused = str(error)
        with self._lock:
            self.pairing = pairing
            if self._thread is None and not self.stores.refused:
                self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
                self._thread.start()
        self._inbox.put((self._sweep,))
        self._note_change()

    def unpaired(self) -> None:
        """No drafter is loaded any more: end the process and the thread, once the answers in the queue are stored."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(None)
            thread.join()
        self.pairing = None
        self._note_change()

    def serving(self, choice: Choice) -> None:
        """Another version is served."""
        with self._lock:
            if self.pairing is not None:
                self.pairing = self.pairing.serving(choice)
        self._note_change()

    def answer_begins(self) -> None:
        """Stop the training process at once: somebody waits."""
        with self._lock:
            self.answering += 1
            self._stop_process()

    def answer_ends(self) -> None:
        with self._lock:
            self.answering -= 1
            self._quiet_since = time.monotonic()
        self._inbox.put(())

    def take(self, answer: Answered) -> None:
        """Keep a finished answer for learning; returns at once."""
        if self.wants_answers and answer.request.source is not None:
            self._inbox.put((self._keep, answer, self.pairing))

    def wake(self) -> None:
        """Something else may be due: the settings changed, or what is loaded."""
        self._inbox.put(())
        self._note_change()

    def close(self) -> None:
        """End training, keep the answers still in the queue, release the files. Harmless when repeated."""
        self.unpaired()
        self.stores.close()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """`close`, and have nothing open inside, whatever pages ask; `paired` takes it all up again."""
        self.unpaired()
        with self.stores.let_go():
            yield

    # For pages and commands

    def status(self) -> Status:
        with self._changed:
            return self.learned.status(self._version)

    def wait(self, seen: int, timeout: float) -> int:
        """Block until `status().version` is not `seen`, at most `timeout` seconds; returns it."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, timeout)
            return self._version

    @property
    def state(self) -> State:
        """Where the next update is, or what is to be done about the last one."""
        if (running := self.updates.running) is not None:
            return running.state
        return State.DUE if self._is_due() else State.IDLE

    def hold(self, held: bool = True) -> None:
        """Stop training until somebody lets it go on (`held` False)."""
        with self._lock:
            self.held = held
            self._stop_process()
        self.wake()

    def train_now(self) -> str:
        """Begin an update as soon as no answer is being written, however few answers there are. Returns why not, in a
        sentence; "" if it will."""
        if not self.active or self.pairing is None:
            return self.status().reason
        if not self.settings().enabled:
            return "Learning is switched off."
        if not self.stores.enough:
            return "There is nothing new to learn from yet; a few more answers are needed."
        self.updates.forced = True
        self.wake()
        return ""

    def choose(self, version: str | None, warm: bool = False) -> str:
        """Serve this version, or without one the bare drafter or (`warm`) what it learned for another vocabulary.
        Returns a sentence; StorageError if it is not there."""
        with self._lock:
            if self.pairing is None:
                return "No drafter is loaded, so there is nothing to choose for; ask something first."
            self._kill("Another version was chosen.")
            said = self.updates.choose(self.pairing.choice, version, warm)
            self._swap_due = True
        self.wake()
        return said

    # The thread

    def _work(self) -> None:
        while True:
            try:
                call = self._inbox.get(timeout=self._patience())
            except queue.Empty:
                call = ()
            if call is None:
                break
            with self._carefully():
                if call:
                    call[0](*call[1:])
            with self._carefully():
                if self._inbox.empty():
                    self._take_up()
                    self._begin_due()
        self._kill("The program was closed.")
        while self.updates.running is not None:
            if call := self._inbox.get():
                with self._carefully():
                    call[0](*call[1:])

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
        self.updates.failed()

    def _patience(self) -> float | None:
        """Seconds to wait for a message: a tick while time matters."""
        with self._lock:
            return TICK if self._swap_due or self.state is not State.IDLE else None

    def _keep(self, answer: Answered, pairing: Pairing) -> None:
        self.stores.keep(answer, pairing, self.adapters.store_name(pairing.choice.learned_in))
        self._recount()

    def _sweep(self) -> None:
        """Behind a writer that was killed."""
        if (pairing := self.pairing) is not None:
            pairing.choice.learned_in.prune()
        self._recount()

    def _recount(self) -> None:
        if (pairing := self.pairing) is not None:
            self.stores.recount(pairing)
        self._note_change()

    def _take_up(self) -> None:
        """Let the process go on or end it, and serve what was made."""
        settings = self.settings()
        with self._lock:
            if self.pairing is None:
                return
            running = self.updates.running is not None
            if not settings.enabled:
                self._kill("Learning was switched off.")
            elif running and self.process.paused and self._quiet(self.waits.resume):
                self.process.resume()
                self._note_change()
        if not running and self._swap_due and not self.answering:
            self._swap_due = False  # where it fails, it would fail again at once
            if self._serve():
                self._recount()
            else:
                self._swap_due = True

    def _must_wait(self) -> bool:
        """Whether what is due would be in the way of something else; not if the user wants it now."""
        why = "" if self.updates.forced else self.updates.why_wait() or self.machine.why_wait()
        if why != self.waits_for:
            self.waits_for = why
            self._note_change()
        return bool(why)

    def _quiet(self, seconds: float) -> bool:
        return not self.held and not self.answering and time.monotonic() - self._quiet_since >= seconds

    def _is_due(self) -> bool:
        """Whether an update may begin at the next quiet moment."""
        idle = self.updates.running is None and not self.held and self.pairing is not None
        return idle and self.updates.due(self.settings())

    def _begin_due(self) -> None:
        """Begin what is due, if all is quiet."""
        pairing = self.pairing
        may = self._is_due() and not self._swap_due and self._quiet(self.waits.start) and not self._must_wait()
        if pairing is None or not may:
            return
        job = self.updates.begin(pairing, self.settings(), table_file(self.cache, pairing.pair))
        self.process.start(job, lambda update: self._inbox.put((self._follow, update)))
        with self._lock:
            self.updates.running = job.update
            self._stop_process()
        self._note_change()

    def _stop_process(self) -> None:
        if self.updates.running is not None and (self.answering or self.held):
            self.process.pause()

    def _kill(self, why: str) -> None:
        with self._lock:
            self.process.kill(why)

    def _follow(self, update: Update) -> None:
        """Take in how far the process is; when it is done, have what was made served."""
        self.updates.follow(update)
        if update.ended is not None:
            self.last = update
            self._recount()
            with self._lock:
                self._swap_due = self.pairing is not None
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
    while something is due. busy: above 1 for any load."""

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
