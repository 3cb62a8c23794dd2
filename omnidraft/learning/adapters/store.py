"""The adapter versions of one drafter for one target vocabulary (or shared by all): written whole, served, chosen.

A version is written into a temporary folder, flushed, renamed into place, and only then named by `current.json`, itself
replaced atomically. Whatever is killed in between, the last good version is the one found. It knows nothing of torch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from omnidraft.errors import StorageError
from omnidraft.learning.adapters.versions import (
    ADAPTER,
    DAMAGED,
    KEPT_ASIDE,
    META,
    VERSION_NAME,
    WEIGHTS,
    Meta,
    Pointer,
    Version,
    damaged,
    digest,
    discard,
    place,
    read_meta,
    read_pointer,
    read_version,
    set_aside,
    unfinished,
    unfinished_folder,
    write_pointer,
)  # fmt: skip
from omnidraft.storage.files import erase, pack_arrays, read_arrays, read_as, read_json, reason, sync_folder

# Weights that have been trained but are not served: the next update goes on from them. What is served only ever
# changes for something better, but training must not stop at that: a new topic costs the earlier ones a little before
# it pays, and updates that begin anew each time are refused for it each time (measured, 152 answers on each of two
# topics: none of the second topic's 19 updates was accepted; going on, the fourth was, and the first topic lost
# nothing). One file, replaced whole. It knows nothing of torch, nor of how a candidate is judged.


FILE = ".candidate.npz"
_ABOUT = "about"


@dataclass(frozen=True)
class Candidate:
    """weights: as in a version's file, float32; base: digest of the weights it began with and has to beat, "" for the
    bare drafter; behind: updates it has been trained by without beating them; through: newest replay ordinal it has
    seen; chats: conversations it was trained on."""

    weights: Mapping[str, np.ndarray]
    base: str
    behind: int
    through: int
    chats: tuple[str, ...]


def read_candidate(store: Path) -> Candidate | None:
    """The store's candidate; None if there is none or it is damaged, for all it holds can be learned again."""
    try:
        weights = read_arrays(store / FILE)
        about = read_json(weights.pop(_ABOUT).tobytes())
        return read_as(Candidate, {**about, "weights": {n: matrix.astype(np.float32) for n, matrix in weights.items()}})
    except (ValueError, KeyError, TypeError, StorageError):
        return None


def keep_candidate(store: Path, candidate: Candidate) -> None:
    """Put it in the place of the one before, whose bytes are overwritten. Killed in between, there is none."""
    about = {name: value for name, value in vars(candidate).items() if name != "weights"}
    arrays = {_ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8), **candidate.weights}
    try:
        store.mkdir(parents=True, exist_ok=True)
        made, gone = unfinished_folder(store, "candidate"), unfinished_folder(store, "dropped")
        place(made, pack_arrays(arrays))
        with suppress(FileNotFoundError):
            os.rename(store / FILE, gone)
        os.rename(made, store / FILE)
        sync_folder(store)
        erase(gone)
    except OSError as error:
        raise StorageError(f"what was learned cannot be written to {store}: {reason(error)}.") from error


def drop_candidate(store: Path) -> None:
    """Remove it unreadably, if there is one."""
    path, gone = store / FILE, unfinished_folder(store, "dropped")
    with suppress(OSError):  # it is open, on Windows, or there is none
        os.rename(path, gone)
        path = gone
    erase(path)


def forget_candidate(store: Path, chat: str | None) -> bool:
    """Remove it if it was trained on a conversation (None: in any case), or if nothing says that it was not. Whether
    one was removed."""
    found = (store / FILE).exists()
    if found and chat is not None and (candidate := read_candidate(store)) is not None and chat not in candidate.chats:
        return False
    drop_candidate(store)
    return found


KEPT = 5


class AdapterStore:
    """Versions in one folder. One writer at a time (the trainer); the app reads, chooses and prunes."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._checked: dict[str, tuple[tuple, Version | None]] = {}

    @property
    def pointer(self) -> Pointer:
        """What `current.json` says; if it is missing or damaged, the newest whole version is the one served."""
        if (found := read_pointer(self.folder)) is not None:
            return found
        whole = self.versions()
        return Pointer(whole[-1].name if whole else None, highest=whole[-1].number if whole else 0)

    def versions(self) -> list[Version]:
        """All whole versions, oldest first, rejected ones included."""
        found = (self._read(path) for path in self._folders())
        return [version for version in found if version is not None]

    @property
    def starts_warm(self) -> bool:
        """Whether, without a version of its own, what was learned for another vocabulary serves."""
        pointer = self.pointer
        return not pointer.rejected if pointer.warm is None else pointer.warm

    def current(self) -> Version | None:
        """The version to serve; None for the bare drafter.

        If the one named is damaged, its nearest whole ancestor or else the newest older version that was not rejected.
        """
        pointer = self.pointer
        if pointer.version is None:
            return None
        good = {v.name: v for v in self.versions() if v.name not in pointer.rejected}
        if pointer.version in good:
            return good[pointer.version]
        older = [v for v in good.values() if v.number < int(pointer.version[1:])]
        return older[-1] if older else None

    @property
    def through(self) -> int:
        """Newest replay ordinal already trained on, or tried."""
        current = self.current()
        return max(self.pointer.through, current.meta.through if current else 0)

    def publish(self, files: Mapping[str, bytes], meta: Meta) -> Version:
        """Write a version (ADAPTER and WEIGHTS) and serve it from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = unfinished_folder(self.folder)
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            for name, content in files.items():
                place(temporary / name, content)
            meta = replace(meta, sha256={name: digest(temporary / name) for name in files}, created=time.time())
            place(temporary / META, meta.to_json())
            sync_folder(temporary)
            final = self._next_folder()
            os.rename(temporary, final)
            sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise StorageError(f"an adapter cannot be written to {self.folder}: {reason(error)}.") from error
        version = Version(final, meta)
        write_pointer(self.folder, replace(self.pointer, version=version.name, highest=version.number))
        return version

    def _next_folder(self) -> Path:
        """Of a version with a number that none ever had."""
        aside = (path.name.removeprefix(DAMAGED) for path in damaged(self.folder))
        used = [path.name for path in self._folders()] + [n for n in aside if VERSION_NAME.fullmatch(n)]
        number = max([self.pointer.highest, *(int(name[1:]) for name in (*used, *self.pointer.rejected))])
        return self.folder / f"v{number + 1:06d}"

    def reject_update(self, through: int) -> None:
        """The answers up to this ordinal were trained on and nothing was published: wait for newer ones."""
        write_pointer(self.folder, replace(self.pointer, through=max(through, self.pointer.through)))

    def choose(self, version: str | None, warm: bool = False) -> Version | None:
        """Serve this version from now on, whatever was served or rejected before; without one the bare drafter, or
        `warm`: what was learned for another vocabulary. StorageError if there is no such version."""
        chosen = next((v for v in self.versions() if v.name == version), None)
        if version is not None and chosen is None:
            raise StorageError("This version is not there any more.")
        pointer = self.pointer
        rejected = tuple(name for name in pointer.rejected if name != version)
        through = max([pointer.through, *(v.meta.through for v in self.versions())])
        start = None if chosen is not None else warm
        write_pointer(self.folder, replace(pointer, version=version, rejected=rejected, through=through, warm=start))
        drop_candidate(self.folder)  # it was made from what was served until now
        return chosen

    def set_damaged_aside(self) -> tuple[str, ...]:
        """Give folders that are not whole versions another name, so that nothing is built on them; their names."""
        broken = [path for path in self._folders() if self._read(path) is None]
        return tuple(path.name for path in broken if set_aside(path))

    def prune(self) -> None:
        """Remove all but the last `KEPT` good versions and the one served, and what a killed writer left.

        Damaged versions stay for `set_damaged_aside`.
        """
        current, pointer = self.current(), self.pointer
        if current is not None and current.name != pointer.version:
            # Before the slow part: another may be chosen meanwhile.
            write_pointer(self.folder, replace(pointer, version=current.name))
        whole = self.versions()
        good = [v.name for v in whole if v.name not in pointer.rejected]
        kept = {*good[-KEPT:], current.name if current else ""}
        for version in whole:
            if version.name not in kept:
                discard(version.path)
        for path in [*unfinished(self.folder), *damaged(self.folder)[:-KEPT_ASIDE]]:
            erase(path)

    def forget(self, chat: str | None) -> list[str]:
        """Remove every version trained on a conversation, or descended from one that was (None: all of them), and a
        candidate that was.

        What is left is served again, and `through` goes back to it, so the next update retrains on the remaining
        replay. The files are overwritten first.
        """
        doomed = [path for path in self._folders() if chat is None or _trained_on(path, chat)]
        left = [v for v in self.versions() if v.path not in doomed and v.name not in self.pointer.rejected]
        current = self.current()
        kept = left[-1].name if left and current is not None else None
        if current is not None and current.path not in doomed:
            kept = current.name
        if doomed:
            rejected = tuple(r for r in self.pointer.rejected if self.folder / r not in doomed)
            highest = max([self.pointer.highest, *(int(path.name[1:]) for path in doomed)])
            left_so = Pointer(kept, rejected, highest=highest, warm=self.starts_warm)  # `rejected` may have said it
            write_pointer(self.folder, left_so)
        for path in doomed:
            discard(path)
        if forget_candidate(self.folder, chat):
            write_pointer(self.folder, replace(self.pointer, through=0))  # what it learned from others is new again
        aside = [path for path in damaged(self.folder) if chat is None or _trained_on(path, chat)]
        for path in [*aside, *unfinished(self.folder, alive_too=True)]:
            erase(path)
        self._checked.clear()
        return [path.name for path in doomed]

    def _folders(self) -> list[Path]:
        """Version folders in order, whole or not."""
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if VERSION_NAME.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=lambda path: int(path.name[1:]))

    def _read(self, path: Path) -> Version | None:
        """`read_version`, hashing a folder's files again only when one of them changed."""
        try:
            stamp = tuple((path / n).stat().st_mtime_ns for n in (META, ADAPTER, WEIGHTS))
        except OSError:
            return None
        known = self._checked.get(path.name)
        if known is None or known[0] != stamp:
            known = self._checked[path.name] = (stamp, read_version(path))
        return known[1]


def drafter_folder(drafter: Path, fingerprint: str) -> str:
    """A folder name for a drafter: readable, and distinct for another file of the same name."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', drafter.stem).lstrip('.')[:60]}-{fingerprint[:12]}"


def warm_start(store: AdapterStore) -> Version | None:
    """The latest version the store's drafter has for any other vocabulary: where a new target begins."""
    others = [path for path in sorted(store.folder.parent.glob("*")) if path.is_dir() and path != store.folder]
    served = [AdapterStore(path).current() for path in others]
    return max((v for v in served if v is not None), key=lambda v: v.meta.created, default=None)


def _trained_on(path: Path, chat: str) -> bool:
    """Damaged descriptions count as trained on it: nothing says they were not."""
    try:
        return chat in read_meta(path).chats
    except (OSError, StorageError):
        return True
