"""Forgetting: a conversation, or everything, leaves every store of a profile, not only the list of conversations.

Works on a closed profile; a program that has it open holds n-grams and adapters in memory and would write them back,
so it closes those first (`Assistant.forget`) and hands over its store of conversations.
Deleted rows are overwritten and their files rewritten, whole files are overwritten before they are removed. What a file
system keeps by itself (snapshots, a drive's spare blocks) is out of reach.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.chats import ChatStore, Message
from omnidraft.errors import StorageError
from omnidraft.format import counted
from omnidraft.learning.adapters.serving import MERGED
from omnidraft.learning.adapters.store import AdapterStore, read_candidate
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.folders import erase_backups, existing, in_use, refuse_in_use
from omnidraft.profiles.uploads import clear_uploads
from omnidraft.storage import database
from omnidraft.storage.files import erase, read_json, sync_folder
from omnidraft.storage.paths import DataHome, ProfilePaths
from omnidraft.vocab.ngram_cache import ANONYMOUS
from omnidraft.vocab.ngram_store import NgramStore

# What a profile has learned from, by name: conversations that are kept, and those that only left something learned. A
# conversation on the terminal is not kept, and one that was deleted is gone, but answers, n-grams and adapter versions
# bear its name until it is forgotten. Nothing is changed here.


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
            found.update(_taught_by(row))
    return found


def _taught_by(row: object) -> list[str]:
    """The conversations that taught an n-gram."""
    return row[SOURCES] if isinstance(row, list) and len(row) > SOURCES else []


def _stores(adapters: Path) -> list[AdapterStore]:
    return [AdapterStore(path) for path in sorted(adapters.glob("*/*")) if path.is_dir()]


def _versions(adapters: Path) -> Counter[str]:
    """How many versions each conversation went into; 0 if it is only in a candidate for one."""
    stores = _stores(adapters)
    found = Counter(chat for store in stores for version in store.versions() for chat in version.meta.chats)
    candidates = [read_candidate(store.folder) for store in stores]
    found.update({chat: 0 for candidate in candidates if candidate is not None for chat in candidate.chats})
    return found


def _rows(path: Path, query: str) -> list[tuple]:
    if not path.is_file() or not path.stat().st_size:
        return []
    try:
        with closing(database.connect(path)) as connection:
            return connection.execute(query).fetchall()
    except database.Error as error:
        raise StorageError(f"{path} cannot be read: {error}.") from error


LEARNED = ("ngrams", "replay", "metrics")  # who answers or learns has these open
_GENERATED = {"statistics", "token_ids", "origins", "target"}  # what an answer's meta data may have
_OPEN = ("", "-wal", "-shm")  # what an open store consists of


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed from each store. files: files removed besides, adapters' own not counted; versions: names of
    the adapter versions, which were dropped because they, or one they came from, were trained on what is forgotten."""

    conversations: int
    ngrams: int
    answers: int
    adapters: int
    files: int = 0
    versions: tuple[str, ...] = ()

    def sentence(self) -> str:
        """For display."""
        said = (
            f"Removed: {counted(self.conversations, 'conversation')}, {counted(self.ngrams, 'n-gram')} from the "
            f"cache, {counted(self.answers, 'answer')} from the replay, {counted(self.adapters, 'adapter version')}"
        )
        if not self.versions:
            return f"{said}."
        return f"{said} trained on it ({', '.join(self.versions)}). What is left in the replay is learned anew."


def forget_chat(home: DataHome, profile: str, chat: str) -> Forgotten:
    """Remove a conversation (by id) and what was learned from it: n-grams, replay answers, adapters. One that was not
    kept, as on the terminal, is forgotten by the name it was learned from under.

    An n-gram that other conversations taught too stays; one whose origin was not noted goes if it may occur in
    this conversation (it is learned again when it is needed). An adapter version goes if it, or one it came from, was
    trained on the conversation. Safe to repeat after an interruption: the conversation itself goes last. StorageError
    if the profile is in use or has no such conversation.
    """
    paths = _closed(home, profile)
    known = find_source(paths, chat)
    if not known.kept:
        return _forget_learned(paths, known.id, ())
    with ChatStore(paths.chats) as store:
        return forget_from(paths, store, known.id)


def forget_from(paths: ProfilePaths, store: ChatStore, chat: str) -> Forgotten:
    """`forget_chat` where the conversations, and nothing else of the profile, are open."""
    _refuse_others(paths)
    _, messages = store.snapshot(chat)
    learned = _forget_learned(paths, chat, _tokens(messages))
    store.delete(chat)
    if not store.erased():
        raise StorageError(f"{paths.chats} is being read by another program; close it and repeat this.")
    return replace(learned, conversations=1)


def _forget_learned(paths: ProfilePaths, chat: str, written: Collection[int] | None) -> Forgotten:
    """Forget what was learned from a conversation. written: its target ids, see `_forget_ngrams`."""
    erase_backups(paths)
    for damaged in paths.root.glob(f"{paths.ngrams.name}.damaged-*"):  # set aside, as nobody could read it
        erase(damaged)
    answers = 0
    if paths.replay.is_file():
        with ReplayStore(paths.replay) as replay:
            answers = replay.forget(chat)
    ngrams = _forget_ngrams(paths.ngrams, chat, written)
    erase(paths.root / MERGED)  # made anew when it is missed; first, so that a repetition need not know of it
    versions = _forget_adapters(paths.adapters, chat)
    return Forgotten(0, ngrams, answers, len(versions), versions=versions)


def forget_everything(home: DataHome, profile: str) -> Forgotten:
    """Remove everything of a profile but its settings, so that it is like new. StorageError if it is in use."""
    paths = _closed(home, profile)
    clear_uploads(home)
    conversations = 0
    with suppress(StorageError):  # what cannot be read is removed all the same
        if paths.chats.is_file():
            with ChatStore(paths.chats) as store:
                conversations = len(store.conversations())
    return _forget_files(paths, conversations, [])


def forget_everything_from(paths: ProfilePaths, store: ChatStore) -> Forgotten:
    """`forget_everything` where the conversations, and nothing else of the profile, are open."""
    _refuse_others(paths)
    conversations = len(store.conversations())
    gone = _forget_files(paths, conversations, [paths.chats.with_name(paths.chats.name + end) for end in _OPEN])
    store.clear()
    if not store.erased():
        raise StorageError(f"{paths.chats} is being read by another program; close it and repeat this.")
    return gone


def _forget_files(paths: ProfilePaths, conversations: int, kept: Collection[Path]) -> Forgotten:
    """Overwrite and remove all files of a profile but the settings and those kept."""
    erase_backups(paths)
    answers = 0
    with suppress(StorageError):
        if paths.replay.is_file():
            with ReplayStore(paths.replay) as replay:
                answers = len(replay)
    ngrams = _count_ngrams(paths.ngrams)
    versions = _forget_adapters(paths.adapters, None)
    files = 0
    for file in sorted(path for path in paths.root.rglob("*") if path.is_file() or path.is_symlink()):
        if file != paths.settings and file not in kept:
            erase(file)
            files += 1
    for folder in [path for path in paths.root.iterdir() if path.is_dir()]:
        shutil.rmtree(folder)
    sync_folder(paths.root)
    return Forgotten(conversations, ngrams, answers, len(versions), files)


def _forget_adapters(adapters: Path, chat: str | None) -> tuple[str, ...]:
    """Drop the versions that a conversation (None: any) went into; their names."""
    return tuple(name for store in _stores(adapters) for name in store.forget(chat))


def _closed(home: DataHome, profile: str) -> ProfilePaths:
    found = existing(home, profile)
    refuse_in_use(found)
    return found


def _refuse_others(paths: ProfilePaths) -> None:
    """StorageError if another program, as a chat on the terminal, has open what is to be changed: it would write back
    what it still knows."""
    if in_use(paths, LEARNED):
        raise StorageError(
            "Nothing was forgotten: another program, such as a chat on the terminal, works with this profile; end it "
            "first."
        )


def _tokens(messages: Sequence[Message]) -> set[int] | None:
    """Every target id of what a model of this program wrote, so that something may have been learned from it; None if
    one of the answers does not say."""
    answers = [message for message in messages if message.role == "assistant" and _GENERATED & message.meta.keys()]
    if not all(answer.token_ids for answer in answers):
        return None
    return {token for answer in answers for token in answer.token_ids}


def _forget_ngrams(path: Path, chat: str, written: Collection[int] | None) -> int:
    """Take a conversation's n-grams out of every vocabulary pair's table; the models need not be there.

    written: the conversation's target ids; None, unknown, takes every n-gram that is not noted as another's.
    """
    gone = 0
    for table in ngram_tables(path):
        store = NgramStore(path, table)
        try:
            doomed, changed = [], []
            for token, row in store.rows:
                sources = _taught_by(row)
                others = [source for source in sources if source not in (chat, ANONYMOUS)]
                if not others and (chat in sources or written is None or token in written):
                    doomed.append(token)
                elif chat in sources:
                    left = [source for source in sources if source != chat]
                    changed.append((token, [*row[:SOURCES], left, *row[SOURCES + 1 :]]))
            store.write(changed, doomed, store.meta)
            store.purge()
            gone += len(doomed)
        finally:
            store.close()
    return gone


def _count_ngrams(path: Path) -> int:
    counted = 0
    with suppress(StorageError):
        for table in ngram_tables(path):
            store = NgramStore(path, table)
            counted += len(store.rows)
            store.close()
    return counted
