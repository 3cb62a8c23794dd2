"""The replay store: past answers the drafter can learn from, bounded in size, oldest out first.

It stores and hands out `Record`s by ordinal; it knows nothing of losses or adapters. Two sqlitedict tables in one
file: `records` (one compact blob per answer) and `answers` (JSON, what is needed to choose without unpacking). Values
are never pickled: a database this module did not create is refused before anything in it is read.

Held out: every `HELD_OUT_EVERY`-th answer of a target vocabulary, whole. A tail of each answer would be easier to come
by, but an adapter that has just memorised the first nine tenths of an answer also knows its names and numbers in the
last, and the gate must not be fooled by memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import Record, decode, encode
from omnidraft.storage import sqlite
from omnidraft.storage.dict_table import DictTable
from omnidraft.storage.json_text import read_json

APPLICATION = 0x4F44_5231  # "ODR1" in the SQLite header: only such files are opened
SCHEMA = 1
HELD_OUT_EVERY = 8
HELD_OUT_AT = 4
_FAILURES: tuple[type[Exception], ...] = (*sqlite.Error, RuntimeError)  # sqlitedict wraps some in that


@dataclass(frozen=True)
class Answer:
    """What the index says about one stored record. nth: its number among its vocabulary's answers; drafter: as in
    `Record`."""

    chat: str
    target: str
    vocabulary: str
    task: str | None
    tokens: int
    bytes: int
    time: float
    nth: int
    drafter: str = ""

    @property
    def held_out(self) -> bool:
        return self.nth % HELD_OUT_EVERY == HELD_OUT_AT


class ReplayStore:
    """Records by ordinal (growing, never reused). One writer; readers may open the same file `read_only`."""

    def __init__(self, path: Path, limit_mb: float = 256, read_only: bool = False) -> None:
        self.path, self.limit, self.read_only = Path(path), int(limit_mb * 1e6), read_only
        self._next = _prepare(self.path, read_only)
        self._records: Any = None  # tables, while they are open
        self._answers: Any = None
        with _display_errors(self.path):
            self._open()

    def _open(self) -> None:
        flag = "r" if self.read_only else "c"
        self._records = DictTable(self.path, "records", encode, decode, flag)
        self._answers = DictTable(self.path, "answers", _to_json, _from_json, flag)
        self.answers: dict[int, Answer] = {int(k): v for k, v in self._answers.items()}
        self._next = max(self._next, max(self.answers, default=0) + 1)
        if not self.read_only:
            self._drop_orphans()

    def _revive(self) -> None:
        """Open anew behind a commit that failed: sqlitedict's thread ended with it."""
        if not (self._records.alive and self._answers.alive):
            self.close()
            self._open()

    def _drop_orphans(self) -> None:
        """Blobs whose index entry was never written (killed in between), and the reverse."""
        stored = {int(k) for k in self._records.keys()}  # noqa: SIM118 - sqlitedict's own iterator decodes nothing here
        self._delete(stored ^ set(self.answers))

    @property
    def bytes(self) -> int:
        """Bytes of all records, without SQLite's own overhead (a few percent)."""
        return sum(answer.bytes for answer in self.answers.values())

    @property
    def tokens(self) -> int:
        return sum(answer.tokens for answer in self.answers.values())

    def spelled_by(self, drafter: str) -> dict[int, Answer]:
        """The answers in this drafter's vocabulary, by its fingerprint, and those that do not say in whose they are."""
        return {ordinal: answer for ordinal, answer in self.answers.items() if answer.drafter in ("", drafter)}

    def add(self, record: Record) -> int:
        """Store one answer and evict the oldest ones past the limit; returns its ordinal. Two short transactions."""
        same = [a.nth for a in self.answers.values() if a.vocabulary == record.vocabulary]
        blob_size = len(encode(record))
        answer = Answer(
            record.chat,
            record.target,
            record.vocabulary,
            record.task,
            len(record.targets),
            blob_size,
            record.time,
            max(same, default=-1) + 1,
            record.drafter,
        )
        with _display_errors(self.path):
            self._revive()
            ordinal, self._next = self._next, self._next + 1
            self._records[_key(ordinal)] = record
            self._records.commit()
            self._answers[_key(ordinal)] = answer
            self._answers.commit()
        self.answers[ordinal] = answer
        self._evict()
        return ordinal

    def _evict(self) -> None:
        surplus, gone = self.bytes - self.limit, []
        for ordinal in sorted(self.answers)[:-1]:  # the newest answer stays, whatever its size
            if surplus <= 0:
                break
            gone.append(ordinal)
            surplus -= self.answers[ordinal].bytes
        if gone:
            self._delete(gone)

    def resize(self, limit_mb: float) -> None:
        self.limit = int(limit_mb * 1e6)
        self._evict()

    def get(self, ordinal: int) -> Record:
        """One record; KeyError if it was evicted. Nothing stays open in the database afterwards."""
        with _display_errors(self.path):
            return self._records[_key(ordinal)]

    def forget(self, chat: str | None) -> int:
        """Delete one conversation's answers (None: all) and overwrite their bytes on disk; returns how many.

        secure_delete zeroes the freed pages, VACUUM drops them, and the write-ahead log is emptied. No other
        process may hold the file open (the caller stops the trainer first): StorageError if one does.
        """
        gone = [o for o, a in self.answers.items() if chat is None or a.chat == chat]
        self._delete(gone)
        self.close()
        with _display_errors(self.path):
            _scrub(self.path, self._next)
            self._open()
        return len(gone)

    def _delete(self, ordinals: Iterable[int]) -> None:
        gone = list(ordinals)
        with _display_errors(self.path):
            for table in (self._answers, self._records):  # two connections: commit one before touching the other
                for ordinal in gone:
                    if _key(ordinal) in table:
                        del table[_key(ordinal)]
                table.commit()
        for ordinal in gone:
            self.answers.pop(ordinal, None)

    def close(self) -> None:
        for table in (self._records, self._answers):
            if table is not None:
                table.close()
        self._records = self._answers = None

    def __enter__(self) -> ReplayStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for ordinal in sorted(self.answers):
            yield ordinal, self.get(ordinal)


def _key(ordinal: int) -> str:
    return f"{ordinal:012d}"


def _to_json(answer: Answer) -> str:
    return json.dumps(asdict(answer), separators=(",", ":"))


def _from_json(text: str) -> Answer:
    try:
        values = read_json(text)
        known = {field.name for field in fields(Answer)}  # an earlier program kept more
        return Answer(**{name: value for name, value in values.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageError("the replay's index was not written by this program and is not read") from error


def _prepare(path: Path, read_only: bool) -> int:
    """Create the file with our mark in its header, or check the mark; nothing else is read before that. Returns the
    least ordinal that no answer had when the last ones were forgotten."""
    if not path.exists():
        if read_only:
            raise StorageError(f"there is no replay at {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
    with _display_errors(path):
        connection = sqlite.connect(path)
        try:
            mark = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if tables == 0 and not read_only:
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={SCHEMA}")
            elif mark != APPLICATION:
                raise StorageError(f"{path} is not an OmniDraft replay; it was left untouched")
            elif version > SCHEMA:
                raise StorageError(f"{path} was written by a newer version of OmniDraft")
            marked = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'next'").fetchone()
            return int(connection.execute("SELECT ordinal FROM next").fetchone()[0]) if marked else 1
        finally:
            connection.close()


def _scrub(path: Path, following: int) -> None:
    """Overwrite what was deleted, and note the ordinal that follows: those that were given are not given again."""
    connection = sqlite.connect(path, isolation_level=None, timeout=5)
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS next AS SELECT 1 AS ordinal")
        connection.execute("UPDATE next SET ordinal = ?", (following,))
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("VACUUM")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StorageError(f"{path} is in use; what was deleted may still be in its log")
    finally:
        connection.close()


@contextmanager
def _display_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise StorageError(f"the replay at {path} cannot be used: {error}") from error
