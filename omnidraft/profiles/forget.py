"""Forgetting: a conversation, or everything, leaves every store of a profile, not only the list of conversations.

Works on a closed profile; a program that has it open holds n-grams and adapters in memory and would write them back.
Deleted rows are overwritten and their files rewritten, whole files are overwritten before they are removed. What a file
system keeps by itself (snapshots, a drive's spare blocks) is out of reach.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from omnidraft.chats import ChatStore, Conversation, Message
from omnidraft.errors import StorageError
from omnidraft.files import reason, sync_folder
from omnidraft.learning.replay import ReplayStore
from omnidraft.paths import DataHome, ProfilePaths
from omnidraft.profiles.folders import existing, in_use
from omnidraft.vocab.eviction import ANONYMOUS
from omnidraft.vocab.ngram_store import NgramStore

SHORTEST_PREFIX = 4  # of a conversation's id
_BLOCK = bytes(1 << 20)
_GENERATED = ("statistics", "token_ids", "origins", "target")  # what an answer's meta data may have
_SOURCES = 4  # where a row of the n-gram cache lists the conversations it came from


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed from each store. files: files removed besides, adapters' own not counted."""

    conversations: int
    ngrams: int
    answers: int
    adapters: int
    files: int = 0


def find_chat(home: DataHome, profile: str, beginning: str) -> Conversation:
    """The conversation whose id is, or uniquely begins with, `beginning`. StorageError otherwise."""
    paths = existing(home, profile).paths
    chats: list[Conversation] = []
    if paths.chats.is_file():
        with ChatStore(paths.chats) as store:
            chats = store.conversations()
    found = [chat for chat in chats if chat.id == beginning]
    if not found and len(beginning) >= SHORTEST_PREFIX:
        found = [chat for chat in chats if chat.id.startswith(beginning)]
    if len(found) != 1:
        raise StorageError(
            f"There is no conversation {beginning[:60]} in the profile {profile}."
            if not found
            else f"{len(found)} conversations begin with {beginning[:60]}; give more of the id."
        )
    return found[0]


def forget_chat(home: DataHome, profile: str, chat: str) -> Forgotten:
    """Remove a conversation (by id) and what was learned from it: n-grams, replay answers, adapters.

    An n-gram that other conversations taught too stays; one whose origin was not noted goes if it may occur in
    this conversation (it is learned again when it is needed). An adapter goes if it was written after the conversation
    began, for it may have been trained on it or on an adapter that was. Safe to repeat after an interruption: the
    conversation itself goes last. StorageError if the profile is in use or has no such conversation.
    """
    paths = _closed(home, profile)
    known = find_chat(home, profile, chat)
    with ChatStore(paths.chats) as store:
        _, messages = store.snapshot(known.id)
        generated = [message for message in messages if _generated(message)]
        answers = _forget_answers(paths.replay, known.id)
        ngrams = _forget_ngrams(paths.ngrams, known.id, _tokens(generated))
        adapters = _drop_adapters(paths.adapters, since=known.created) if answers or generated else 0
        if not store.delete(known.id):
            raise StorageError(f"{paths.chats} is being read by another program; close it and repeat this.")
    return Forgotten(1, ngrams, answers, adapters)


def forget_everything(home: DataHome, profile: str) -> Forgotten:
    """Remove everything of a profile but its settings, so that it is like new. StorageError if it is in use."""
    paths = _closed(home, profile)
    conversations = answers = 0
    with suppress(StorageError):  # what cannot be read is removed all the same
        if paths.chats.is_file():
            with ChatStore(paths.chats) as store:
                conversations = len(store.conversations())
    with suppress(StorageError):
        if paths.replay.is_file():
            with ReplayStore(paths.replay) as replay:
                answers = len(replay)
    ngrams = _count_ngrams(paths.ngrams)
    adapters = _drop_adapters(paths.adapters, since=0.0)
    files = 0
    for file in sorted(path for path in paths.root.rglob("*") if path.is_file() or path.is_symlink()):
        if file != paths.settings:
            _shred(file)
            files += 1
    for folder in [path for path in paths.root.iterdir() if path.is_dir()]:
        shutil.rmtree(folder)
    sync_folder(paths.root)
    return Forgotten(conversations, ngrams, answers, adapters, files)


def _closed(home: DataHome, profile: str) -> ProfilePaths:
    paths = existing(home, profile).paths
    if in_use(paths):
        raise StorageError(f"The profile {profile} is in use; close the app first.")
    return paths


def _generated(message: Message) -> bool:
    """Whether a model of this program wrote it, so that something may have been learned from it."""
    return message.role == "assistant" and any(name in message.meta for name in _GENERATED)


def _tokens(generated: Sequence[Message]) -> set[int] | None:
    """Every target id these answers hold; None if one of them does not say."""
    if not all(message.token_ids for message in generated):
        return None
    return {token for message in generated for token in message.token_ids}


def _forget_answers(path: Path, chat: str) -> int:
    if not path.is_file():
        return 0
    with ReplayStore(path) as replay:
        return replay.forget(chat)


def _forget_ngrams(path: Path, chat: str, written: Collection[int] | None) -> int:
    """Take a conversation's n-grams out of every vocabulary pair's table; the models need not be there.

    written: the conversation's target ids; None, unknown, takes every n-gram that is not noted as another's.
    """
    gone = 0
    for table in _ngram_tables(path):
        store = NgramStore(path, table)
        try:
            doomed, changed = [], []
            for token, row in store.rows:
                sources = row[_SOURCES] if isinstance(row, list) and len(row) > _SOURCES else []
                others = [source for source in sources if source not in (chat, ANONYMOUS)]
                if not others and (chat in sources or written is None or token in written):
                    doomed.append(token)
                elif chat in sources:
                    left = [source for source in sources if source != chat]
                    changed.append((token, [*row[:_SOURCES], left, *row[_SOURCES + 1 :]]))
            store.write(changed, doomed, store.meta)
            store.purge()
            gone += len(doomed)
        finally:
            store.close()
    return gone


def _ngram_tables(path: Path) -> list[str]:
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"The n-gram cache {path} cannot be used: {error}.") from error
    return [name for (name,) in tables if name.startswith("ngrams_")]


def _count_ngrams(path: Path) -> int:
    counted = 0
    with suppress(StorageError):
        for table in _ngram_tables(path):
            store = NgramStore(path, table)
            counted += len(store.rows)
            store.close()
    return counted


def _drop_adapters(folder: Path, since: float) -> int:
    """Remove adapter versions with a file written after `since`, and loose files as new; how many versions went.

    Versions are the folders <drafter>/<vocabulary>/<version>; a time stamp that an import renewed only removes more.
    """
    dropped = 0
    for scope in sorted(folder.glob("*/*")):
        for version in sorted(path for path in scope.iterdir() if path.is_dir()) if scope.is_dir() else ():
            files = [path for path in version.rglob("*") if path.is_file() or path.is_symlink()]
            if any(file.lstat().st_mtime >= since for file in files):
                for file in files:
                    _shred(file)
                shutil.rmtree(version)
                dropped += not version.name.startswith(".")
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        loose = len(file.relative_to(folder).parts) <= 3
        if loose and file.lstat().st_mtime >= since:
            _shred(file)
    return dropped


def _shred(file: Path) -> None:
    """Overwrite a file with zeros and remove it; a link is only removed."""
    try:
        if not file.is_symlink():
            with open(file, "r+b") as data:
                left = os.fstat(data.fileno()).st_size
                while left > 0:
                    left -= data.write(_BLOCK[: min(left, len(_BLOCK))])
                data.flush()
                os.fsync(data.fileno())
        file.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{file} cannot be removed: {reason(error)}.") from error
