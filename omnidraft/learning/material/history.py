"""What updates did and how the versions fared: one SQLite file of numbers per profile, for plots.

Holds nothing of what was said: no text, no tokens, no conversation's name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from omnidraft.learning.material.record import Answered, Pairing
from omnidraft.learning.update import Update
from omnidraft.storage.database import Database, Migration

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
    ("plain rounds of served answers", ""),  # earlier versions' files name it, with columns that nobody reads
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

    def costs(self) -> list[tuple[float, float]]:
        """When each of the last updates ended, 0 for one that has not, and its processor seconds; newest first."""
        return [(update.ended or 0.0, update.cpu_seconds) for update in self.updates(MOST_A_DAY)]

    def add_reason(self, store: str, version: str, sentence: str) -> None:
        """Say more about the update that made a version, if it is known here."""
        for (facts,) in self._db.all("SELECT facts FROM updates WHERE store = ? AND version = ?", (store, version)):
            if (update := _read(facts)) is not None:
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


# What learning has brought in answers since: the drafter's acceptance before and after. Sums only. Speeds are not
# compared: those of other days come from another moment of the machine.


WINDOW = 50  # of the latest answers on either side
FEWEST = 40  # proposals on either side before acceptance is worth comparing


@dataclass(frozen=True, slots=True)
class Gain:
    """version: the first that served behind the answers compared with. acceptance: (before, after) of what the drafter
    proposed."""

    version: str
    acceptance: tuple[float, float]


def gain(answers: Sequence[ServedAnswer], target: str, version: str | None) -> Gain | None:
    """What the version served has brought with `target`; None while too little is known.

    answers: the last ones, oldest first. Compared are the latest answers of learned versions up to `version` with those
    of the bare drafter before the first of them, or of the oldest version known where those are no longer.
    """
    mine = [a for a in answers if a.target == target]
    if not version or not any(a.version == version for a in mine):
        return None
    base = "" if any(a.version == "" for a in mine) else mine[0].version
    learned = [a for a in mine if base < a.version <= version]
    if not learned:
        return None
    before = [a for a in mine[: mine.index(learned[0])] if a.version == base][-WINDOW:]
    after = learned[-WINDOW:]
    if min(sum(a.proposed for a in side) for side in (before, after)) < FEWEST:
        return None
    return Gain(min(a.version for a in learned), (_acceptance(before), _acceptance(after)))


def _acceptance(answers: Sequence[ServedAnswer]) -> float:
    return sum(a.accepted for a in answers) / sum(a.proposed for a in answers)
