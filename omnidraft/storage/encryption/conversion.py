"""A data home made encrypted, or plain again, so that a kill at any moment loses nothing and a repeated start goes on.

    copying    every profile is written anew into a folder beside, and each file checked against the one it is from
    swapping   the two folders change names
    erasing    the old files are overwritten and removed

The header says which step is due; each may be begun any number of times. Until the first is done the old files are
what counts, from then on the new ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.storage import sqlite
from omnidraft.storage.encryption.copying import convert_folder, decrypt, encrypt, refuse_links, refuse_open
from omnidraft.storage.encryption.header import Header, Step, write_header
from omnidraft.storage.file_lock import FileLock
from omnidraft.storage.files import erase, reason, sync_folder
from omnidraft.storage.paths import DataHome, measured
from omnidraft.storage.vault import HEADER, Vault, part_of

NEW, OLD = ".profiles-new", ".profiles-old"
LOCKS = ("encryption.lock", "app.lock")
_FAILURES: tuple[type[Exception], ...] = (OSError, *sqlite.Error, OmniDraftError)


@dataclass
class Conversion:
    """One conversion of a home. vault: with its key, held by nobody meanwhile: paths are opened by what they are."""

    home: DataHome
    vault: Vault
    header: Header

    def run(self) -> Header | None:
        """Go on from where the header says; the header of the home as it is then, None for a plain one.

        StorageError if another program has the data open, or if a file cannot be copied; the home is as before then.
        """
        with self._alone():
            if self.header.step == "copying":
                self._copy()
            if self.header.step == "swapping":
                _swap(self.home)
                self._next("erasing")
            if self.header.step == "erasing":
                self._erase()
        return self.header if self.header.becomes == "encrypted" else None

    def _next(self, step: Step) -> None:
        self.header = replace(self.header, step=step)
        write_header(self.home.root, self.header)

    def _copy(self) -> None:
        write_header(self.home.root, self.header)  # from now on no other program opens a file here
        try:
            refuse_open(self.home.profiles, self._source_key)
            refuse_links(self.home.profiles)
            shutil.rmtree(self.home.root / NEW, ignore_errors=True)
            _need_space(self.home)
            change = encrypt if self.header.becomes == "encrypted" else decrypt
            convert_folder(self.home.profiles, self.home.root / NEW, change, self.vault, self.home.profiles)
        except _FAILURES as error:
            self._give_up()
            if isinstance(error, OmniDraftError):
                raise
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise StorageError(f"The data in {self.home.root} was not converted: {why}.") from error
        self._next("swapping")

    def _give_up(self) -> None:
        """The home as it was before."""
        shutil.rmtree(self.home.root / NEW, ignore_errors=True)
        if self.header.becomes == "encrypted":
            (self.home.root / HEADER).unlink(missing_ok=True)
        else:
            write_header(self.home.root, replace(self.header, step="", becomes="encrypted"))

    def _source_key(self, path: Path) -> bytes | None:
        """What the old file at `path` is opened with."""
        part = part_of(path.relative_to(self.home.profiles))
        return None if self.header.becomes == "encrypted" else self.vault.key(part)

    def _erase(self) -> None:
        erase(self.home.root / OLD)
        if self.header.becomes == "plain":
            (self.home.root / HEADER).unlink(missing_ok=True)
            sync_folder(self.home.root)
            return
        erase(self.home.root / "uploads")
        self._next("")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """StorageError if the app runs here, or another conversion."""
        locks = [FileLock(self.home.root / name) for name in LOCKS]
        try:
            if not all(lock.acquire() for lock in locks):
                raise StorageError(f"OmniDraft is running with the data in {self.home.root}; end it first.")
            yield
        finally:
            for lock in locks:
                lock.release()


def _need_space(home: DataHome) -> None:
    needed = int(measured(home.profiles) * 1.1)
    if needed > shutil.disk_usage(home.root).free:
        raise StorageError(f"Converting the data in {home.root} takes {needed / 1e6:,.0f} MB of free space for now.")


def _swap(home: DataHome) -> None:
    """Safe to repeat. A start in between may have made empty folders of profiles."""
    new, old, now = home.root / NEW, home.root / OLD, home.profiles
    try:
        if new.exists():
            if not old.exists():
                os.rename(now, old)
            elif now.exists():
                for folder in sorted(now.rglob("*"), reverse=True):
                    folder.rmdir()
                now.rmdir()
            os.rename(new, now)
        sync_folder(home.root)
    except OSError as error:
        raise StorageError(f"The data in {home.root} was not converted: {reason(error)}.") from error
