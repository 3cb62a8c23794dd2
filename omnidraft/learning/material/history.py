"""What updates did and how the versions fared: one SQLite file of numbers per profile, for plots and live rollback.

Holds nothing of what was said: no text, no tokens, no conversation's name.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path

from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.facts import ServedAnswer, Update
from omnidraft.learning.material.record import Answered, Pairing, record_of, served_by
from omnidraft.learning.material.replay import ReplayStore, waiting
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.database import Database, Migration
from omnidraft.storage.paths import Part, ProfilePaths, measured
from omnidraft.storage.scratch import FileLock

APPLICATION_ID = 0x4F44_4D31  # "ODM1" in the SQLite header
KEPT_UPDATES, KEPT_ANSWERS = 2000, 50_000

MIGRATIONS: tuple[Migration, ...] = (
    (
        "updates and served answers",
        """
        CREATE TABLE updates (number INTEGER PRIMARY KEY, store TEXT NOT NULL, version TEXT, facts TEXT NOT NULL);
        CREATE TABLE served (
            id INTEGER PRIMARY KEY,
            store TEXT NOT NULL,
            version TEXT NOT NULL,
            time REAL NOT NULL,
            target TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            passes INTEGER NOT NULL,
            proposed INTEGER NOT NULL,
            tested INTEGER NOT NULL,
            accepted INTEGER NOT NULL,
            seconds REAL NOT NULL
        );
        CREATE INDEX served_by_version ON served (store, version);
        """,
    ),
    (
        "plain rounds of served answers",
        """
        ALTER TABLE served ADD COLUMN plain INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE served ADD COLUMN plain_seconds REAL NOT NULL DEFAULT 0;
        """,
    ),
)
_COLUMNS = "time, version, target, tokens, passes, proposed, tested, accepted, seconds, plain, plain_seconds"


class History:
    """Updates by number (growing) and answers in order. store: the adapter store they belong to, a relative path."""

    def __init__(self, file: Path) -> None:
        self._db = Database(file, APPLICATION_ID, MIGRATIONS)
        self._costs: tuple[int, list[tuple[float, float]]] | None = None  # as of a version of the file

    def close(self) -> None:
        self._db.close()

    def next_number(self) -> int:
        return self._db.all("SELECT coalesce(max(number), 0) + 1 FROM updates")[0][0]

    def save(self, store: str, update: Update) -> None:
        """Keep an update that is over, or as far as it got."""
        with self._db.changing():
            values = (update.number, store, update.version, json.dumps(asdict(update)))
            self._db.run("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?)", values)
            self._db.run("DELETE FROM updates WHERE number <= ?", (update.number - KEPT_UPDATES,))
        self._costs = None

    def end_running(self, reason: str) -> None:
        """Call the last updates that were never told the end of interrupted, where they stand."""
        for store, facts in self._db.all("SELECT store, facts FROM updates ORDER BY number DESC LIMIT 3"):
            if (update := _update(facts)).outcome == "running":
                self.save(store, replace(update, outcome="interrupted", reason=reason))

    def updates(self, limit: int = 50, store: str | None = None) -> list[Update]:
        """Newest first, of one store if given."""
        of = "WHERE store = :store" if store is not None else ""
        names = {"store": store, "limit": limit}
        rows = self._db.all(f"SELECT facts FROM updates {of} ORDER BY number DESC LIMIT :limit", names)
        return [_update(facts) for (facts,) in rows]

    def spent(self, seconds: float) -> float:
        """Processor seconds of the updates that ended in the last `seconds`."""
        since = time.time() - seconds
        return sum(took for ended, took in self.costs() if ended > since)

    def costs(self) -> list[tuple[float, float]]:
        """When each update ended, 0 for one that has not, and its processor seconds; newest first. Read once until
        somebody writes one, for who waits for room in the hour asks again and again."""
        version = self._db.all("PRAGMA data_version")[0][0]  # of what other programs wrote
        if self._costs is None or self._costs[0] != version:
            facts = "coalesce(json_extract(facts, '$.ended'), 0), coalesce(json_extract(facts, '$.cpu_seconds'), 0)"
            self._costs = version, self._db.all(f"SELECT {facts} FROM updates ORDER BY number DESC")
        return self._costs[1]

    def published(self, store: str) -> dict[str, Update]:
        """The update behind each version of a store."""
        rows = self._db.all("SELECT version, facts FROM updates WHERE store = ? AND version IS NOT NULL", (store,))
        return {version: _update(facts) for version, facts in rows}

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

    def served(self, limit: int = 500, store: str | None = None, version: str | None = None) -> list[ServedAnswer]:
        """The last `limit` answers, oldest first, of one store and version if given."""
        conditions = [(name, value) for name, value in (("store", store), ("version", version)) if value is not None]
        where = " AND ".join(f"{name} = ?" for name, _ in conditions) or "1"
        values = (*(value for _, value in conditions), limit)
        rows = self._db.all(f"SELECT {_COLUMNS} FROM served WHERE {where} ORDER BY id DESC LIMIT ?", values)
        return [ServedAnswer(*row) for row in reversed(rows)]

    def live(self, store: str) -> dict[str, tuple[int, float | None]]:
        """By version: how many answers it served, and accepted / tested over them."""
        rows = self._db.all(
            "SELECT version, count(*), sum(accepted), sum(tested) FROM served WHERE store = ? GROUP BY version",
            (store,),
        )
        return {version: (count, accepted / tested if tested else None) for version, count, accepted, tested in rows}


def acceptance(answers: Iterable[ServedAnswer]) -> list[float]:
    """accepted / tested of every answer with something tested."""
    return [a.accepted / a.tested for a in answers if a.tested]


def _update(facts: str) -> Update:
    known = {f.name for f in fields(Update)}
    values = {name: value for name, value in json.loads(facts).items() if name in known}
    values["losses"] = tuple(values.get("losses", ()))
    return Update(**values)


# The files learning keeps in a profile, while they are open: the replay, the history, and the right to write them.
# Only one program at a time learns in a profile. It decides nothing; counts are kept so that pages need no file.


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
