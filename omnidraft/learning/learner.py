"""Learning while nobody waits: keeps answers, trains in a process of its own when all is quiet, serves what it made.

One thread does all the work, fed through a queue, so that an answer costs its writer no more than putting it there.
Answers come first: while one is being written the training process is stopped. The app side needs no torch. Pages and
the command line look at `status` and press the buttons; what to serve, and the swap itself, is the assistant's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.facts import ServedAnswer, Start, Status, Update, VersionInfo
from omnidraft.learning.material.capture import Answered, Pairing
from omnidraft.learning.material.history import History
from omnidraft.learning.material.keeping import Keeping, files_of
from omnidraft.learning.schedule import Schedule, Waits
from omnidraft.learning.status import status_of, version_facts
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import Part, ProfilePaths

log = logging.getLogger("omnidraft.learning")


class Learner:
    """What a profile's drafter learns. Methods may be called from any thread.

    settings: gives the present learning settings; serve: swaps to what the store says now, False if it cannot yet;
    active False: looks at what is there, keeps nothing and trains nothing. why_not: the sentence for that; waits: how
    long all must be quiet before anything is trained.
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
        self.profile, self.adapters, self.active, self.why_not = profile, adapters, active, why_not
        self._settings, self._cache = settings, cache
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self.waits = Waits()
        self._keeping = Keeping(profile, settings)
        self._schedule = Schedule(self._keeping, adapters, cache, settings, serve, self._note_change, self.waits)

    # Called by the assistant

    @property
    def wants_answers(self) -> bool:
        """Whether answers should carry the target's distributions."""
        able = self.active and not self._keeping.refused
        return able and self._settings().enabled and self._schedule.pairing is not None

    def paired(self, pairing: Pairing) -> None:
        """Learn for this drafter and target from now on."""
        if self.active:
            try:
                self._keeping.open()
            except StorageError as error:
                log.warning("%s", error)
                self._keeping.refused = str(error)
            self._schedule.begin(pairing)
        else:
            self._schedule.pairing = pairing
        self._note_change()

    def unpaired(self) -> None:
        """No drafter is loaded any more."""
        self._schedule.end()
        self._note_change()

    def serving(self, choice: Choice) -> None:
        """Another version is served."""
        self._schedule.serving(choice)

    def answer_begins(self) -> None:
        """Stop the training process at once: somebody waits."""
        self._schedule.answer_begins()

    def answer_ends(self) -> None:
        self._schedule.answer_ends()

    def take(self, answer: Answered) -> None:
        """Keep a finished answer for learning; returns at once."""
        if self.wants_answers and answer.request.source is not None:
            self._schedule.put(answer)

    def spare_memory(self) -> None:
        """Memory is wanted for models, or they leave it: no training process waits in it for its next job."""
        self._schedule.spare_memory()

    def settings_changed(self) -> None:
        self._schedule.wake()
        self._note_change()

    def close(self) -> None:
        """End training, keep the answers still in the queue, release the files. Harmless when repeated."""
        self._schedule.end()
        self._keeping.close()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """`close`, and have nothing open inside, whatever pages ask; `paired` takes it all up again."""
        self._schedule.end()
        with self._keeping.let_go():
            yield

    # For pages and commands

    def status(self) -> Status:
        with self._changed:
            return status_of(self._schedule, self._keeping, self._version, self.active, self.why_not)

    def wait(self, seen: int, timeout: float) -> int:
        """Block until `status().version` is not `seen`, at most `timeout` seconds; returns it."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, timeout)
            return self._version

    def versions(self) -> list[VersionInfo]:
        """The versions of the drafter and vocabulary that are loaded, newest first."""
        pairing = self._schedule.pairing
        if pairing is None:
            return []
        with self._looking() as history:
            return version_facts(pairing.choice, self.adapters, history)

    def starts(self) -> list[Start]:
        """What could serve besides the versions: what was learned for another vocabulary, and the bare drafter."""
        pairing = self._schedule.pairing
        if pairing is None or pairing.choice.store is None:
            return []
        warm = self.adapters.start(pairing.choice)
        found = [Start(True, pairing.choice.origin == "warm start", warm.meta.target)] if warm is not None else []
        return [*found, Start(False, pairing.choice.origin == "none")]

    def subject(self) -> tuple[str, str] | None:
        """The drafter that is loaded and the family of vocabularies it learns for; None if none is loaded."""
        pairing = self._schedule.pairing
        return (pairing.choice.drafter.stem, pairing.pair.target.family) if pairing is not None else None

    def history(self, limit: int = 50) -> list[Update]:
        """Updates of the drafter and vocabulary that are loaded, newest first; of all while none is."""
        with self._looking() as history:
            return history.updates(limit, self._store_name()) if history else []

    def served_answers(self, limit: int = 500) -> list[ServedAnswer]:
        """The last answers with the drafter and vocabulary that are loaded, oldest first; with all while none is."""
        with self._looking() as history:
            return history.served(limit, self._store_name()) if history else []

    def _store_name(self) -> str | None:
        pairing = self._schedule.pairing
        if pairing is None or pairing.choice.store is None:
            return None
        return self.adapters.store_name(pairing.choice.store)

    def files(self) -> list[Part]:
        """Where everything learned lives, and how large it is."""
        return files_of(self.profile, self.adapters, self._cache)

    def hold(self) -> None:
        """Stop training until `go_on`."""
        self._schedule.hold(True)

    def go_on(self) -> None:
        self._schedule.hold(False)

    def train_now(self) -> str:
        """Begin an update as soon as no answer is being written, however few answers there are. Returns a sentence."""
        if not self.active or self._schedule.pairing is None:
            return self.status().reason
        if not self._settings().enabled:
            return "Learning is switched off."
        if not self._keeping.enough:
            return "There is nothing new to learn from yet; a few more answers are needed."
        self._schedule.force()
        return "Training begins as soon as no answer is being written."

    def rollback(self) -> str:
        """Serve the version before, and never the present one again. Returns a sentence."""
        pairing = self._schedule.pairing
        if pairing is None or pairing.choice.origin != "own":
            return "There is nothing to go back to: no version of this drafter is served."
        return self._schedule.rollback()

    def choose(self, version: str | None, warm: bool = False) -> str:
        """Serve this version, or without one the bare drafter or (`warm`) what it learned for another vocabulary.
        Returns a sentence; StorageError if it is not there."""
        pairing = self._schedule.pairing
        if pairing is None or pairing.choice.store is None:
            return "No drafter is loaded, so there is nothing to choose for; ask something first."
        return self._schedule.choose(version, warm)

    @contextmanager
    def _looking(self) -> Iterator[History | None]:
        with ExitStack() as looks:
            try:
                history = looks.enter_context(self._keeping.looking())
            except OmniDraftError as error:
                log.warning("%s", error)
                history = None
            yield history

    def _note_change(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()
