"""The files learning keeps in a profile, while they are open: the replay, the history, and the right to write them.

Only one program at a time learns in a profile. It decides nothing; counts are kept so that pages need no file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.material.capture import Answered, Pairing, record_of, served_by
from omnidraft.learning.material.history import History
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.material.selection import waiting
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.file_lock import FileLock
from omnidraft.storage.paths import Part, ProfilePaths, measured

LOCK = "learning.lock"
_DAY = 86_400.0  # seconds


class OpenStores:
    """refused: why nothing can be learned here, "" if it can. answers, tokens, bytes: of the replay; fresh: answers of
    the present vocabulary that no update has seen; enough: how many of them an update could be judged with, else 0;
    day_seconds: processor time of the updates of the last 24 hours."""

    def __init__(self, profile: ProfilePaths, settings: Callable[[], LearningSettings]) -> None:
        self._profile, self._settings = profile, settings
        self._lock = threading.RLock()
        self._right = FileLock(profile.root / LOCK)
        self.refused = ""
        self.replay: ReplayStore | None = None
        self.history: History | None = None
        self.answers = self.tokens = self.bytes = self.fresh = self.enough = 0
        self.day_seconds = 0.0

    def open(self) -> None:
        """Open what learning writes, or note in `refused` that another program does. StorageError for damaged files."""
        with self._lock:
            self.refused = ""
            if self.replay is not None:
                return
            if not self._right.acquire():
                self.refused = "Another program is learning in this profile."
                return
            try:
                self._open_files()
            except BaseException:
                self.close()  # with one of them missing nothing can be learned, and the next load tries again
                raise

    def _open_files(self) -> None:
        self.replay = ReplayStore(self._profile.replay)
        self.open_history()
        _, history = self.files
        history.end_running("The program ended meanwhile.")
        self._count()

    @property
    def files(self) -> tuple[ReplayStore, History]:
        """Replay and history, while both are open."""
        assert self.replay is not None
        assert self.history is not None
        return self.replay, self.history

    def open_history(self) -> None:
        """Open the history alone, if there is one or this program is the one that writes it."""
        with self._lock:
            if self.history is None and (self.replay is not None or self._profile.metrics.is_file()):
                self.history = History(self._profile.metrics)

    @contextmanager
    def looking(self) -> Iterator[History | None]:
        """The history, if there is one, for who only looks; it is not closed meanwhile."""
        with self._lock:
            self.open_history()
            yield self.history

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Have nothing open inside, whoever looks: they wait."""
        with self._lock:
            self.close()
            yield

    def close(self) -> None:
        """Release everything, even what cannot write any more."""
        with self._lock, ExitStack() as releasing:
            releasing.callback(self._right.release)
            for store in (self.replay, self.history):
                if store is not None:
                    releasing.callback(store.close)
            self.replay = self.history = None

    def keep(self, answer: Answered, pairing: Pairing, store_name: str) -> None:
        """Store an answer for training and count it for the version that drafted it."""
        if self.history is not None:
            self.history.add_served(store_name, served_by(answer, pairing))
        if (record := record_of(answer, pairing)) is None:
            return
        with self._lock:
            if self.replay is not None:
                self.replay.add(record)
                self._count()

    def recount(self, drafter: str, vocabularies: Collection[str], through: int) -> None:
        """Count what is new behind replay ordinal `through`, in these target vocabularies and that of `drafter`."""
        with self._lock:
            answers = self.replay.spelled_by(drafter) if self.replay is not None else {}
            self.enough = waiting(answers, vocabularies, through)
            self.fresh = sum(o > through and a.vocabulary in vocabularies for o, a in answers.items())
            self.day_seconds = self.history.spent(_DAY) if self.history is not None else 0.0

    def _count(self) -> None:
        replay, _ = self.files
        self.answers, self.tokens, self.bytes = len(replay), replay.tokens, replay.bytes


def files_of(profile: ProfilePaths, adapters: Adapters, cache: Path) -> list[Part]:
    """Where everything learned lives, and how large it is."""
    return [
        Part("replay", profile.replay, "Past answers the drafter can learn from.", measured(profile.replay)),
        Part("adapters", profile.adapters, "What the drafter has learned, by version.", measured(profile.adapters)),
        Part("metrics", profile.metrics, "Updates, acceptance and speed over time.", measured(profile.metrics)),
        Part("merged", adapters.merged, "The drafter with its adapter added in; made anew.", measured(adapters.merged)),
        Part("tables", cache / "expansions", "How targets' tokens are spelled; made anew.",
             measured(cache / "expansions")),
    ]  # fmt: skip
