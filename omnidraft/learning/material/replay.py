"""The replay store: past answers the drafter can learn from, bounded in size, oldest out first; and how each target
token is written in the drafter's pieces, without which they cannot be read.

It stores and hands out `Record`s by ordinal; it knows nothing of losses or adapters. Two tables in one file: `records`
(one compact blob per answer) and `answers` (JSON, what is needed to choose without unpacking).

Held out: one answer in eight of a target vocabulary, of the first sixteen one in four, whole. A tail of each answer
would be easier to come by, but an adapter that has just memorised the first nine tenths of an answer also knows its
names and numbers in the last, and the gate must not be fooled by memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import Record, decode, encode
from omnidraft.storage.database import Database, erase_deleted
from omnidraft.storage.files import pack_arrays, read_arrays, read_as, read_json, write_atomically

log = logging.getLogger("omnidraft.learning")

if TYPE_CHECKING:
    from omnidraft.vocab import PairMap

APPLICATION = 0x4F44_5231  # "ODR1" in the SQLite header: only such files are opened
MIGRATIONS = [
    # Earlier programs made the tables without noting that, and when killed could leave one half of an answer.
    ("tables", """
        CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB);
        CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value BLOB);
        CREATE TABLE IF NOT EXISTS next (ordinal);
        DELETE FROM records WHERE key NOT IN (SELECT key FROM answers);
        DELETE FROM answers WHERE key NOT IN (SELECT key FROM records);
    """),
]  # fmt: skip
LIMIT_MB = 256.0  # of earlier answers
FIRST = 16  # answers of which more are held out: one or two say nothing


@dataclass(frozen=True)
class Answer:
    """What the index says about one stored record. nth: its number among its vocabulary's answers; drafter: as in
    `Record`."""

    chat: str
    target: str
    vocabulary: str
    tokens: int
    bytes: int
    time: float
    nth: int
    drafter: str = ""

    @property
    def held_out(self) -> bool:
        return self.nth % (4 if self.nth < FIRST else 8) == 3


class ReplayStore(AbstractContextManager):
    """Records by ordinal (growing, never reused). One writer; readers may open the same file."""

    def __init__(self, path: Path, limit_mb: float = LIMIT_MB) -> None:
        self.path, self.limit = Path(path), int(limit_mb * 1e6)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._database = Database(self.path, APPLICATION, MIGRATIONS)
        index = self._database.all("SELECT key, value FROM answers ORDER BY key")
        self.answers: dict[int, Answer] = {int(key): _from_json(value) for key, value in index}
        ((least,),) = self._database.all("SELECT coalesce(max(ordinal), 1) FROM next")
        self._next = max(least, max(self.answers, default=0) + 1)

    @property
    def bytes(self) -> int:
        """Bytes of all records, without SQLite's own overhead (a few percent)."""
        return sum(answer.bytes for answer in self.answers.values())

    @property
    def tokens(self) -> int:
        return sum(answer.tokens for answer in self.answers.values())

    def usable(self, drafter: str, target: str) -> dict[int, Answer]:
        """The answers in this target's and this drafter's vocabulary, by their fingerprints, and those that do not say
        in what drafter's they are."""
        return {o: a for o, a in self.answers.items() if a.drafter in ("", drafter) and a.vocabulary == target}

    def add(self, record: Record) -> int:
        """Store one answer and evict the oldest ones past the limit; returns its ordinal."""
        same = [a.nth for a in self.answers.values() if a.vocabulary == record.vocabulary]
        blob = encode(record)
        answer = Answer(
            record.chat, record.target, record.vocabulary, len(record.targets), len(blob), record.time,
            max(same, default=-1) + 1, record.drafter,
        )  # fmt: skip
        ordinal, self._next = self._next, self._next + 1
        with self._database.changing():
            self._database.run("INSERT INTO records VALUES (?, ?)", (_key(ordinal), blob))
            self._database.run("INSERT INTO answers VALUES (?, ?)", (_key(ordinal), _to_json(answer)))
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

    def get(self, ordinal: int) -> Record:
        """One record; KeyError if it was evicted."""
        found = self._database.all("SELECT value FROM records WHERE key = ?", (_key(ordinal),))
        if not found:
            raise KeyError(ordinal)
        return decode(found[0][0])

    def forget(self, chat: str | None) -> int:
        """Delete one conversation's answers (None: all) and overwrite their bytes on disk; returns how many.

        The ordinal that follows is noted: those that were given are not given again. No other process may be reading
        (the caller stops the trainer first): StorageError if one is.
        """
        gone = [o for o, a in self.answers.items() if chat is None or a.chat == chat]
        self._delete(gone)
        with self._database.changing():
            self._database.run("DELETE FROM next")
            self._database.run("INSERT INTO next VALUES (?)", (self._next,))
        with self._database.using():
            if not erase_deleted(self._database.connection):
                raise StorageError(f"{self.path} is in use; what was deleted may still be in its log")
        return len(gone)

    def _delete(self, ordinals: Iterable[int]) -> None:
        gone = list(ordinals)
        with self._database.changing():
            for ordinal in gone:
                self._database.run("DELETE FROM answers WHERE key = ?", (_key(ordinal),))
                self._database.run("DELETE FROM records WHERE key = ?", (_key(ordinal),))
        for ordinal in gone:
            self.answers.pop(ordinal, None)

    def close(self) -> None:
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.answers)


def _key(ordinal: int) -> str:
    return f"{ordinal:012d}"


def _to_json(answer: Answer) -> str:
    return json.dumps(asdict(answer), separators=(",", ":"))


def _from_json(text: str | bytes) -> Answer:
    try:
        return read_as(Answer, read_json(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageError("the replay's index was not written by this program and is not read") from error


# Which stored answers an update learns from and which it is judged on. Arithmetic on the replay's index alone.


# Measured: without them a third of the gain is lost; with three, 300 answers of mathematics teach .427, with two .431
# in four fifths of the time.
REPLAYED_PER_NEW = 2
JUDGED_OLD = 24


@dataclass(frozen=True)
class Selection:
    """Replay ordinals. new, replayed: trained on; judged_new, judged_old: held out. through: newest ordinal seen."""

    new: tuple[int, ...]
    replayed: tuple[int, ...]
    judged_new: tuple[int, ...]
    judged_old: tuple[int, ...]
    through: int


def select_answers(answers: Mapping[int, Answer], through: int, seed: int, most_new: int) -> Selection:
    """New answers are those past `through`, the oldest `most_new` of them; for each some older ones are replayed, drawn
    uniformly."""
    rng = np.random.default_rng(seed)
    usable = sorted(answers)
    training = [o for o in usable if not answers[o].held_out]
    backlog = [o for o in training if o > through]
    new, more = backlog[:most_new], backlog[most_new:]
    older = [o for o in training if o <= through]
    replayed: Sequence[int] = []
    if older and new:
        replayed = rng.choice(older, min(len(older), REPLAYED_PER_NEW * len(new)), replace=False).tolist()
    held = [o for o in usable if answers[o].held_out]
    judged_new, rest = [o for o in held if o > through], [o for o in held if o <= through]
    judged_old = rng.permutation(rest)[:JUDGED_OLD].tolist()
    sort = lambda ordinals: tuple(sorted(map(int, ordinals)))  # noqa: E731
    seen = more[0] - 1 if more else usable[-1] if usable else through
    return Selection(tuple(new), sort(replayed), tuple(judged_new), sort(judged_old), seen)


# A copy of what the vocabulary pair knows, without its tokenizers, as arrays the training process can load alone: it
# needs neither llama.cpp nor a model's vocabulary to read a replay.


_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class ExpansionTable:
    """E(t) for V target tokens over D drafter pieces.

    flat: all expansions behind one another, (sum of lengths,) int32; offsets: (V + 1,) int64, E(t) is
    flat[offsets[t]:offsets[t + 1]], empty for tokens without one; every target end-of-generation id has the drafter's
    as its expansion. direct: target id with a piece's bytes, (D,) int32, -1 if there is none.
    """

    drafter_fingerprint: str
    target_fingerprint: str
    flat: np.ndarray
    offsets: np.ndarray
    direct: np.ndarray

    @classmethod
    def from_pair(cls, pair: PairMap) -> ExpansionTable:
        lengths = np.fromiter((len(e) for e in pair.expansions), np.int64, len(pair.expansions))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        flat = np.fromiter((d for e in pair.expansions for d in e), np.int32, int(offsets[-1]))
        prints = pair.drafter.fingerprint, pair.target.fingerprint
        return cls(*prints, flat, offsets, np.asarray(pair.direct, np.int32))

    def save(self, path: Path) -> None:
        prints = np.array([self.drafter_fingerprint, self.target_fingerprint])
        arrays = {"prints": prints, "flat": self.flat, "offsets": self.offsets, "direct": self.direct}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pack_arrays(arrays, compressed=True))

    @classmethod
    def load(cls, path: Path) -> ExpansionTable:
        """StorageError if the file is missing or damaged."""
        try:
            data = read_arrays(path)
            drafter, target = map(str, data["prints"])
            return cls(drafter, target, data["flat"], data["offsets"], data["direct"])
        except (ValueError, KeyError) as error:
            raise StorageError(f"the expansion table {path} cannot be read: {error}") from error

    @property
    def target_size(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """(V,) int64: |E(t)|."""
        return np.diff(self.offsets)

    def rows(self, target_ids: np.ndarray, width: int) -> np.ndarray:
        """First `width` pieces of each token's expansion, -1 behind its end. (..., width) int32."""
        at = self.offsets[target_ids][..., None] + np.arange(width)
        inside = np.arange(width) < self.lengths[target_ids][..., None]
        return np.where(inside, self.flat[np.minimum(at, len(self.flat) - 1)], -1).astype(np.int32)

    @cached_property
    def aliases(self) -> np.ndarray:
        """(D, A) int32: the pieces that map directly to the same target token as piece d, d first, -1 behind them."""
        pieces = np.flatnonzero(self.direct >= 0)
        order = pieces[np.argsort(self.direct[pieces], kind="stable")]
        groups = np.split(order, np.flatnonzero(np.diff(self.direct[order])) + 1) if len(order) else []
        table = np.full((len(self.direct), max((len(g) for g in groups), default=1)), -1, np.int32)
        table[:, 0] = np.arange(len(self.direct))
        for group in groups:
            if len(group) > 1:
                for d in group:
                    table[d, 1 : len(group)] = group[group != d]
        return table

    @cached_property
    def _passing(self) -> tuple[np.ndarray, np.ndarray]:
        """Sorted hashes of all proper prefixes (length >= 1) of all expansions, and how many tokens pass each."""
        hashes, width = [], int(self.lengths.max(initial=0))
        running = np.zeros(self.target_size, np.uint64)
        for j in range(width - 1):
            longer = self.lengths > j + 1
            here = np.where(longer, self.offsets[:-1] + j, 0)
            running = _extend_hash(running, self.flat[here])
            hashes.append(running[longer])
        joined = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
        return np.unique(joined, return_counts=True)

    def passing(self, prefixes: np.ndarray) -> np.ndarray:
        """How many target tokens have an expansion that starts with each prefix and is longer. (N, j) -> (N,) int64."""
        if prefixes.shape[1] == 0:
            return np.full(len(prefixes), int((self.lengths > 0).sum()))
        running = np.zeros(len(prefixes), np.uint64)
        for column in prefixes.T:
            running = _extend_hash(running, column)
        keys, counts = self._passing
        if not len(keys):
            return np.zeros(len(prefixes), np.int64)
        at = np.minimum(np.searchsorted(keys, running), len(keys) - 1)
        return np.where(keys[at] == running, counts[at], 0)


def _extend_hash(running: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    mixed = (running ^ (pieces.astype(np.uint64) + np.uint64(1))) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


def _same(one: ExpansionTable, other: ExpansionTable) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(ExpansionTable))


def table_file(cache: Path, pair: PairMap) -> Path:
    """The file of the table to learn with; written if it is missing or holds another."""
    drafter, target = pair.drafter.fingerprint, pair.target.fingerprint
    own, table = cache / "expansions" / f"{drafter[:20]}-{target}.npz", ExpansionTable.from_pair(pair)
    try:
        if own.is_file() and _same(ExpansionTable.load(own), table):
            return own
    except StorageError as error:
        log.warning("%s; it is written anew.", error)
    table.save(own)
    return own
