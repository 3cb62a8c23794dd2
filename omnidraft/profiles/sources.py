"""What a profile has learned from, by name: conversations that are kept, and those that only left something learned.

A conversation on the terminal is not kept, and one that was deleted is gone, but answers, n-grams and adapter versions
bear its name until it is forgotten. Nothing is changed here.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from omnidraft.chats import ChatStore
from omnidraft.errors import StorageError
from omnidraft.learning.adapters.candidate import read_candidate
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.storage import sqlite
from omnidraft.storage.json_text import read_json
from omnidraft.storage.paths import ProfilePaths
from omnidraft.vocab.eviction import ANONYMOUS

SHORTEST_PREFIX = 4  # of a conversation's id
SOURCES = 4  # where a row of the n-gram cache lists the conversations it came from


@dataclass(frozen=True, slots=True)
class Source:
    """id, title, created, updated (seconds, 0: unknown): of the conversation; kept: whether its text is there;
    answers, ngrams, versions: how many of each bear its name."""

    id: str
    title: str
    created: float
    updated: float
    kept: bool
    answers: int
    ngrams: int
    versions: int


def list_sources(paths: ProfilePaths) -> list[Source]:
    """All that can be forgotten by name: kept conversations as their store lists them, then the others, newest first.

    StorageError if a part of the profile cannot be read.
    """
    answers, times = _answers(paths.replay)
    counts = answers, _ngrams(paths.ngrams), _versions(paths.adapters)
    chats = []
    if paths.chats.is_file():
        with ChatStore(paths.chats) as store:
            chats = store.conversations()
    kept = [Source(c.id, c.title, c.created, c.updated, True, *(count[c.id] for count in counts)) for c in chats]
    others = set().union(*counts) - {chat.id for chat in chats} - {ANONYMOUS}
    left = [
        Source(name, "a chat whose text was not kept", 0, times.get(name, 0), False, *(count[name] for count in counts))
        for name in others
    ]
    return kept + sorted(left, key=lambda source: (-source.updated, source.id))


def find_source(paths: ProfilePaths, beginning: str) -> Source:
    """The one whose id is, or uniquely begins with, `beginning`. StorageError otherwise."""
    sources = list_sources(paths)
    found = [source for source in sources if source.id == beginning]
    if not found and len(beginning) >= SHORTEST_PREFIX:
        found = [source for source in sources if source.id.startswith(beginning)]
    if len(found) != 1:
        raise StorageError(
            f"There is no conversation {beginning[:60]} in the profile {paths.root.name}."
            if not found
            else f"{len(found)} conversations begin with {beginning[:60]}; give more of the id."
        )
    return found[0]


def ngram_tables(path: Path) -> list[str]:
    """Names of the n-gram caches in a file, one for each pair of vocabularies."""
    names = [name for (name,) in _rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if name.startswith("ngrams_")]


def _answers(path: Path) -> tuple[Counter[str], dict[str, float]]:
    """How many answers each conversation has in the replay, and the time of its last one."""
    found = [read_json(value) for (value,) in _rows(path, "SELECT value FROM answers")]
    times: dict[str, float] = {}
    for answer in found:
        times[answer["chat"]] = max(answer["time"], times.get(answer["chat"], 0))
    return Counter(answer["chat"] for answer in found), times


def _ngrams(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for table in ngram_tables(path):
        for (value,) in _rows(path, f"SELECT value FROM \"{table}\" WHERE key <> 'meta'"):
            row = read_json(value)
            found.update(row[SOURCES] if isinstance(row, list) and len(row) > SOURCES else [])
    return found


def _versions(adapters: Path) -> Counter[str]:
    """How many versions each conversation went into; 0 if it is only in a candidate for one."""
    stores = [AdapterStore(path) for path in sorted(adapters.glob("*/*")) if path.is_dir()]
    found = Counter(chat for store in stores for version in store.versions() for chat in version.meta.chats)
    candidates = [read_candidate(store.folder) for store in stores]
    found.update({chat: 0 for candidate in candidates if candidate is not None for chat in candidate.chats})
    return found


def _rows(path: Path, query: str) -> list[tuple]:
    """Without sqlitedict, which closes a file some time after it was told to; until then it counts as in use."""
    if not path.is_file() or not path.stat().st_size:
        return []
    try:
        with closing(sqlite.connect(path)) as connection:
            return connection.execute(query).fetchall()
    except sqlite.Error as error:
        raise StorageError(f"{path} cannot be read: {error}.") from error
