"""What updates did and how the versions fared: one SQLite file of numbers per profile, for plots and live rollback.

Holds nothing of what was said: no text, no tokens, no conversation's name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path

from omnidraft.learning.facts import ServedAnswer, Update
from omnidraft.storage.database import Database, Migration

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
        took, ended = "json_extract(facts, '$.cpu_seconds')", "json_extract(facts, '$.ended')"
        return self._db.all(f"SELECT total({took}) FROM updates WHERE {ended} > ?", (time.time() - seconds,))[0][0]

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
