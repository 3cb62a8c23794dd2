"""What a profile's drafter learns from and what it has learned: answers, the history of updates, versions; and what is
known of them.

One program at a time writes here, others look. When anything is trained, and how, is not known here, nor are pages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.learning.adapters.serving import MERGED, Adapters
from omnidraft.learning.adapters.store import AdapterStore, warm_start
from omnidraft.learning.adapters.versions import Version, model_fingerprint
from omnidraft.learning.material.history import History, ServedAnswer
from omnidraft.learning.material.record import Answered, Pairing, Record, record_of
from omnidraft.learning.material.replay import Answer, ReplayStore, table_file
from omnidraft.learning.update import MORE_STEPS, MOST_ASKED, MOST_NEW, PASSES, PASSES_ASKED, STEPS, Job, Update
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.database import derived
from omnidraft.storage.paths import Part, ProfilePaths, measured
from omnidraft.storage.scratch import FileLock

log = logging.getLogger("omnidraft.learning")
LOCK = "learning.lock"
SOONER = 4  # times sooner than later ones: the first update


@dataclass(frozen=True, slots=True)
class Counts:
    """As of the last change, so that nobody needs a file for them.

    answers, tokens, bytes: of the replay; fresh: answers of the present vocabulary that no update has seen; learned:
    those that one has; enough: the fresh ones, 0 while no answer at all is held out to judge by; costs: as in `History`.
    """

    answers: int = 0
    tokens: int = 0
    bytes: int = 0
    fresh: int = 0
    learned: int = 0
    enough: int = 0
    costs: tuple[tuple[float, float], ...] = ()

    def needed(self, interval: int) -> int:
        """New answers that make an update due behind those learned from: as many again, for what is new should be felt
        soon, and `interval` in the end."""
        return min(interval, max(1, interval // SOONER, self.learned))

    def spent(self, seconds: float) -> float:
        """Processor seconds of the updates that ended in the last `seconds`."""
        since = time.time() - seconds
        return sum(took for ended, took in self.costs if ended > since)


@dataclass(frozen=True, slots=True)
class Start:
    """What a drafter can draft with besides the versions it has for a vocabulary.

    warm: what it learned for another vocabulary, while `target` answered; else it is the drafter as it came.
    """

    warm: bool
    served: bool
    target: str = ""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One adapter version and how it fares. live_answers, live_acceptance: of the answers it served (accepted /
    tested)."""

    version: Version
    bytes: int
    served: bool
    rejected: bool
    live_answers: int
    live_acceptance: float | None


class LearningStore:
    """Of the drafter and vocabulary that are loaded, unless a method says else. Methods may be called from any thread.

    pairing: what is loaded; refused: why nothing can be kept here, "" if it can; counts: of what there is. `keep`,
    `add`, `begin`, `end` and `tidy` are for who has it open, which `pair` does.
    """

    def __init__(self, profile: ProfilePaths, cache: Path, adapters: Adapters, refused: str = "") -> None:
        self.pairing: Pairing | None = None
        self.refused = self._looks_only = refused
        self.counts = Counts()
        self._profile, self._cache, self._adapters = profile, cache, adapters
        self._lock = threading.RLock()
        self._right = FileLock(profile.root / LOCK)
        self._replay: ReplayStore | None = None
        self._history: History | None = None

    def pair(self, pairing: Pairing | None) -> None:
        """What is loaded from now on. What is written for it is opened, unless `refused` says why not."""
        with self._lock:
            if pairing is not None and self._replay is None and not self._looks_only:
                self._open()
            self.pairing = pairing

    def _open(self) -> None:
        self.refused = ""
        try:
            if not self._right.acquire():
                self.refused = "Another program is learning in this profile."
                return
            self._replay = ReplayStore(self._profile.replay)
            self._open_history()
            self._files[1].end_running()
            self._count()
        except BaseException as error:
            self.close()  # with one of them missing nothing can be learned, and the next load tries again
            if not isinstance(error, StorageError):
                raise
            log.warning("%s", error)
            self.refused = str(error)

    def _open_history(self) -> None:
        """Open the history alone, if there is one or this program is the one that writes it."""
        if self._history is None and (self._replay is not None or self._profile.metrics.is_file()):
            self._history, _ = derived(self._profile.metrics, lambda: History(self._profile.metrics))

    @property
    def _files(self) -> tuple[ReplayStore, History]:
        """Replay and history, while both are open."""
        assert self._replay is not None
        assert self._history is not None
        return self._replay, self._history

    def close(self) -> None:
        """Release everything, even what cannot write any more. Harmless when repeated."""
        with self._lock, ExitStack() as releasing:
            releasing.callback(self._right.release)
            for store in (self._replay, self._history):
                if store is not None:
                    releasing.callback(store.close)
            self._replay = self._history = None

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Have nothing open inside, whoever looks: they wait."""
        with self._lock:
            self.close()
            yield

    # Answers

    def keep(self, answer: Answered, pairing: Pairing) -> None:
        """Store an answer that was given with this pairing for training, and count it for the version that drafted."""
        with self._lock:
            name = self._adapters.store_name(pairing.choice.learned_in)
            self._files[1].add_served(name, ServedAnswer.of(answer, pairing))
        if (record := record_of(answer, pairing)) is not None:
            self.add(record)

    def add(self, record: Record) -> None:
        """Store an answer for training."""
        with self._lock:
            self._files[0].add(record)
            self._count()

    def tidy(self) -> None:
        """Behind a writer that was killed."""
        if (pairing := self.pairing) is not None:
            pairing.choice.learned_in.prune()
        with self._lock:
            self._count()

    def _count(self) -> None:
        replay, history = self._files
        answers, through = self._usable(), self.pairing.choice.learned_in.through if self.pairing is not None else 0
        fresh = sum(ordinal > through for ordinal in answers)
        self.counts = Counts(
            len(replay), replay.tokens, replay.bytes, fresh, len(answers) - fresh,
            enough=fresh if any(answer.held_out for answer in answers.values()) else 0, costs=tuple(history.costs()),
        )  # fmt: skip

    def _usable(self) -> dict[int, Answer]:
        if self.pairing is None or self._replay is None:
            return {}
        pair = self.pairing.pair
        return self._replay.usable(pair.drafter.fingerprint, pair.target.fingerprint)

    def unlearned(self) -> set[str]:
        """The conversations with answers that no update of this drafter and target has seen."""
        with self._lock:
            through = self.pairing.choice.learned_in.through if self.pairing is not None else 0
            return {answer.chat for ordinal, answer in self._usable().items() if ordinal > through}

    # Updates

    def begin(self, settings: LearningSettings, *, asked: bool = False) -> Job:
        """What training has to do: an update of the served version (or of the one a new vocabulary starts warm from) by
        the answers behind it. It is in the history from now on. asked: somebody wants it now, and waits."""
        pairing, (replay, history) = self.pairing, self._files
        assert pairing is not None
        choice, version = pairing.choice, pairing.choice.version
        update = Update(
            history.next_number(), time.time(), choice.drafter.stem, pairing.target, pairing.pair.target.fingerprint,
        )  # fmt: skip
        job = Job(
            update, str(choice.drafter), model_fingerprint(choice.drafter), str(replay.path),
            str(table_file(self._cache, pairing.pair)), str(choice.learned_in.folder),
            parent=version.name if version is not None and choice.origin == "own" else None,
            start=str(version.weights) if version is not None else None,
            inherited=version.meta.chats if version is not None else (),
            through=choice.learned_in.through, loss=settings.loss, cpu_percent=settings.cpu_percent, seed=update.number,
            most_new=MOST_ASKED if asked else MOST_NEW,
            passes=PASSES_ASKED if asked else PASSES,
            least_steps=MORE_STEPS if asked or version is None else STEPS,
        )  # fmt: skip
        history.save(self._adapters.store_name(choice.learned_in), update)
        return job

    def end(self, job: Job) -> None:
        """Take in what came of a job whose update is over."""
        store = AdapterStore(Path(job.store))
        if job.update.outcome == "refused":
            store.reject_update(job.update.through)
        store.prune()
        with self._lock:
            self._files[1].save(self._adapters.store_name(store), job.update)
            self._count()

    def choose(self, version: str | None, warm: bool = False) -> str:
        """Serve this version, or without one the bare drafter or (`warm`) what it learned for another vocabulary, once
        the models can be had. Returns a sentence; StorageError if it is not there."""
        if self.pairing is None:
            return "No drafter is loaded, so there is nothing to choose for; ask something first."
        now = self.pairing.choice
        chosen = now.learned_in.choose(version, warm)
        with self._looking() as history:
            if now.origin == "own" and history is not None:
                why = f"Left by you for {chosen.name if chosen else 'what it learned elsewhere' if warm else 'none'}."
                history.add_reason(self._adapters.store_name(now.learned_in), now.learned.name, why)
        what = "What it learned for another vocabulary" if warm else "The drafter as it came"
        return f"{f'Version {chosen.number}' if chosen else what} is served from the next answer on."

    # For pages

    @contextmanager
    def _looking(self) -> Iterator[History | None]:
        """The history, if there is one that can be read; it is not closed meanwhile."""
        with self._lock:
            try:
                self._open_history()
            except OmniDraftError as error:
                log.warning("%s", error)
            yield self._history

    def versions(self) -> list[VersionInfo]:
        """The versions, newest first."""
        if (pairing := self.pairing) is None:
            return []
        choice, name = pairing.choice, self._adapters.store_name(pairing.choice.learned_in)
        with self._looking() as history:
            live = history.live(name) if history else {}
        rejected, served = choice.learned_in.pointer.rejected, choice.learned.name if choice.origin == "own" else None
        return [
            VersionInfo(v, measured(v.path), v.name == served, v.name in rejected, *live.get(v.name, (0, None)))
            for v in reversed(choice.learned_in.versions())
        ]

    def starts(self) -> list[Start]:
        """What could serve besides the versions: what was learned for another vocabulary, and the bare drafter."""
        if (pairing := self.pairing) is None:
            return []
        warm = warm_start(pairing.choice.learned_in)
        found = [Start(True, pairing.choice.origin == "warm start", warm.meta.target)] if warm is not None else []
        return [*found, Start(False, pairing.choice.origin == "none")]

    def subject(self) -> tuple[str, str] | None:
        """The drafter and the family of vocabularies it learns for; None while none is loaded."""
        pairing = self.pairing
        return (pairing.choice.drafter.stem, pairing.pair.target.family) if pairing is not None else None

    def history(self, limit: int = 50) -> list[Update]:
        """Updates, newest first; of all while nothing is loaded."""
        with self._looking() as history:
            return history.updates(limit, self._store_name()) if history else []

    def served_answers(self, limit: int = 500) -> list[ServedAnswer]:
        """The last answers, oldest first; with all while nothing is loaded."""
        with self._looking() as history:
            return history.served(limit, self._store_name()) if history else []

    def _store_name(self) -> str | None:
        pairing = self.pairing
        return self._adapters.store_name(pairing.choice.learned_in) if pairing is not None else None

    def files(self) -> list[Part]:
        """Where everything learned in the profile lives, and how large it is."""
        profile = self._profile
        told = {
            "replay": (profile.replay, "Past answers the drafter can learn from."),
            "adapters": (profile.adapters, "What the drafter has learned, by version."),
            "metrics": (profile.metrics, "Updates, acceptance and speed over time."),
            "merged": (profile.root / MERGED, "The drafter with its adapter added in; made anew."),
            "tables": (self._cache / "expansions", "How targets' tokens are spelled; made anew."),
        }
        return [Part(name, path, words, measured(path)) for name, (path, words) in told.items()]
