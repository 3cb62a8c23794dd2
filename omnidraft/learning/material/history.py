"""What updates did and how the versions fared: one SQLite file of numbers per profile, for plots.

Holds nothing of what was said: no text, no tokens, no conversation's name.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from omnidraft.errors import OmniDraftError
from omnidraft.learning.material.record import Answered, Pairing, record_of
from omnidraft.learning.material.replay import Answer, ReplayStore
from omnidraft.learning.update import Update
from omnidraft.storage.database import Database, Migration, derived
from omnidraft.storage.paths import ProfilePaths
from omnidraft.storage.scratch import FileLock

log = logging.getLogger("omnidraft.learning")
APPLICATION_ID = 0x4F44_4D31  # "ODM1" in the SQLite header
KEPT_UPDATES, KEPT_ANSWERS = 2000, 50_000
MOST_A_DAY = 500  # updates

MIGRATIONS: tuple[Migration, ...] = (
    ("updates and served answers", """
        CREATE TABLE updates (number INTEGER PRIMARY KEY, store TEXT NOT NULL, version TEXT, facts TEXT NOT NULL);
        CREATE TABLE served (
            id INTEGER PRIMARY KEY, store TEXT NOT NULL, version TEXT NOT NULL, time REAL NOT NULL,
            target TEXT NOT NULL, tokens INTEGER NOT NULL, passes INTEGER NOT NULL, proposed INTEGER NOT NULL,
            tested INTEGER NOT NULL, accepted INTEGER NOT NULL, seconds REAL NOT NULL
        );
        CREATE INDEX served_by_version ON served (store, version);
    """),
    ("plain rounds of served answers", """
        ALTER TABLE served ADD COLUMN plain INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE served ADD COLUMN plain_seconds REAL NOT NULL DEFAULT 0;
    """),  # which nobody reads any more
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """What one answer cost under an adapter version ("" for the bare drafter). Counts as in `Statistics`.

    proposed, tested, accepted: of what the drafter said, without copies of earlier text.
    """

    time: float
    version: str
    target: str
    tokens: int
    passes: int
    proposed: int
    tested: int
    accepted: int
    seconds: float

    @classmethod
    def of(cls, answer: Answered, pairing: Pairing) -> ServedAnswer:
        """The answer's counters under the version that drafted it."""
        s, choice = answer.finished.statistics, pairing.choice
        version = choice.learned.name if choice.origin == "own" else ""
        seconds = round(s.decode_seconds, 4)
        return cls(time.time(), version, pairing.target, s.tokens, s.target_passes, *s.by_drafter, seconds)


_TYPES: tuple[Any, ...] = ((int, float), str, str, *[int] * 5, (int, float))  # SQLite keeps whatever a row is given
_COLUMNS = ", ".join(f.name for f in fields(ServedAnswer))


def _read(facts: Any) -> Update | None:
    """An update as it is stored; None, and a line in the log, for what is none: numbers may go, the rest goes on."""
    try:
        return Update.of(json.loads(facts))
    except (ValueError, TypeError, AttributeError, RecursionError):
        log.warning("What is known of an update cannot be read and is left out.")
        return None


class History:
    """Updates by number (growing) and answers in order. store: the adapter store they belong to, a relative path."""

    def __init__(self, file: Path) -> None:
        self._db = Database(file, APPLICATION_ID, MIGRATIONS)

    def close(self) -> None:
        self._db.close()

    def next_number(self) -> int:
        return self._db.all("SELECT coalesce(max(number), 0) + 1 FROM updates")[0][0]

    def save(self, store: str, update: Update) -> None:
        """Keep an update that is over, or as far as it got."""
        with self._db.changing():
            values = (update.number, store, update.version, update.to_line())
            self._db.run("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?)", values)
            self._db.run("DELETE FROM updates WHERE number <= ?", (update.number - KEPT_UPDATES,))

    def end_running(self) -> None:
        """Call the last updates that were never told the end of interrupted, where they stand."""
        for store, facts in self._db.all("SELECT store, facts FROM updates ORDER BY number DESC LIMIT 3"):
            if (update := _read(facts)) is not None and update.outcome == "running":
                self.save(store, replace(update, outcome="interrupted", reason="The program ended meanwhile."))

    def updates(self, limit: int = 50, store: str | None = None) -> list[Update]:
        """Newest first, of one store if given."""
        of, values = ("WHERE store = ?", [store]) if store is not None else ("", [])
        rows = self._db.all(f"SELECT facts FROM updates {of} ORDER BY number DESC LIMIT ?", [*values, limit])
        return [update for (facts,) in rows if (update := _read(facts)) is not None]

    def spent(self, seconds: float) -> float:
        """Processor seconds of the updates that ended in the last `seconds`."""
        since = time.time() - seconds
        return sum(took for ended, took in self.costs() if ended > since)

    def costs(self) -> list[tuple[float, float]]:
        """When each of the last updates ended, 0 for one that has not, and its processor seconds; newest first."""
        return [(update.ended or 0.0, update.cpu_seconds) for update in self.updates(MOST_A_DAY)]

    def published(self, store: str) -> dict[str, Update]:
        """The update behind each version of a store."""
        rows = self._db.all("SELECT version, facts FROM updates WHERE store = ? AND version IS NOT NULL", (store,))
        return {version: update for version, facts in rows if (update := _read(facts)) is not None}

    def add_reason(self, store: str, version: str, sentence: str) -> None:
        """Say more about the update that made a version, if it is known here."""
        if (update := self.published(store).get(version)) is not None:
            self.save(store, replace(update, reason=f"{update.reason} {sentence}"))

    def add_served(self, store: str, answer: ServedAnswer) -> None:
        values = asdict(answer)
        with self._db.changing():
            marks = ", ".join(f":{name}" for name in values)
            self._db.run(f"INSERT INTO served (store, {_COLUMNS}) VALUES (:store, {marks})", {"store": store, **values})
            self._db.run("DELETE FROM served WHERE id <= (SELECT max(id) FROM served) - ?", (KEPT_ANSWERS,))

    def served(self, limit: int = 500, store: str | None = None) -> list[ServedAnswer]:
        """The last `limit` answers, oldest first, of one store if given."""
        of, values = ("WHERE store = ?", [store]) if store is not None else ("", [])
        rows = self._db.all(f"SELECT {_COLUMNS} FROM served {of} ORDER BY id DESC LIMIT ?", [*values, limit])
        sound = lambda row: all(isinstance(*pair) for pair in zip(row, _TYPES, strict=True))  # noqa: E731
        return [ServedAnswer(*row) for row in reversed(rows) if sound(row)]

    def live(self, store: str) -> dict[str, tuple[int, float | None]]:
        """By version: how many answers it served, and accepted / tested over them."""
        rows = self._db.all(
            "SELECT version, count(*), sum(accepted), sum(tested) FROM served WHERE store = ? GROUP BY version",
            (store,),
        )
        return {version: (count, accepted / tested if tested else None) for version, count, accepted, tested in rows}


# The files learning keeps in a profile, while they are open: the replay, the history, and the right to write them.
# Only one program at a time learns in a profile. It decides nothing; counts are kept so that pages need no file.


LOCK = "learning.lock"
_DAY = 86_400.0  # seconds


class OpenStores:
    """refused: why nothing can be learned here, "" if it can. answers, tokens, bytes: of the replay; fresh: answers of
    the present vocabulary that no update has seen; learned: those that one has; enough: how many of the fresh ones an
    update could be judged with, else 0; day_seconds: processor time of the updates of the last 24 hours."""

    def __init__(self, profile: ProfilePaths) -> None:
        self._profile = profile
        self._lock = threading.RLock()
        self._right = FileLock(profile.root / LOCK)
        self.refused = ""
        self.replay: ReplayStore | None = None
        self.history: History | None = None
        self.answers = self.tokens = self.bytes = self.fresh = self.learned = self.enough = 0
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
                self.replay = ReplayStore(self._profile.replay)
                self._open_history()
                self.files[1].end_running()
                self._count()
            except BaseException:
                self.close()  # with one of them missing nothing can be learned, and the next load tries again
                raise

    @property
    def files(self) -> tuple[ReplayStore, History]:
        """Replay and history, while both are open."""
        assert self.replay is not None
        assert self.history is not None
        return self.replay, self.history

    def _open_history(self) -> None:
        """Open the history alone, if there is one or this program is the one that writes it."""
        if self.history is None and (self.replay is not None or self._profile.metrics.is_file()):
            self.history, _ = derived(self._profile.metrics, lambda: History(self._profile.metrics))

    @contextmanager
    def looking(self) -> Iterator[History | None]:
        """The history, if there is one that can be read, for who only looks; it is not closed meanwhile."""
        with self._lock:
            try:
                self._open_history()
            except OmniDraftError as error:
                log.warning("%s", error)
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
            self.history.add_served(store_name, ServedAnswer.of(answer, pairing))
        if (record := record_of(answer, pairing)) is None:
            return
        with self._lock:
            if self.replay is not None:
                self.replay.add(record)
                self._count()

    def recount(self, pairing: Pairing) -> None:
        """Count what is new to what was learned for a drafter and a target."""
        through = pairing.choice.learned_in.through
        with self._lock:
            answers = self._usable(pairing)
            self.fresh = sum(ordinal > through for ordinal in answers)
            self.learned = len(answers) - self.fresh
            self.enough = self.fresh if any(answer.held_out for answer in answers.values()) else 0
            self.day_seconds = self.history.spent(_DAY) if self.history is not None else 0.0

    def unlearned(self, pairing: Pairing) -> set[str]:
        """The conversations with answers that no update of this drafter and target has seen."""
        through = pairing.choice.learned_in.through
        with self._lock:
            return {answer.chat for ordinal, answer in self._usable(pairing).items() if ordinal > through}

    def _usable(self, pairing: Pairing) -> dict[int, Answer]:
        pair, store = pairing.pair, self.replay
        return store.usable(pair.drafter.fingerprint, pair.target.fingerprint) if store is not None else {}

    def _count(self) -> None:
        replay, _ = self.files
        self.answers, self.tokens, self.bytes = len(replay), replay.tokens, replay.bytes
