"""A data home made encrypted, or plain again, so that a kill at any moment loses nothing and a repeated start goes on.

    copying    every profile is written anew into a folder beside, and each file checked against the one it is from
    swapping   the two folders change names
    erasing    the old files are overwritten and removed

The header says which step is due; each may be begun any number of times. Until the first is done the old files are
what counts, from then on the new ones. The old ones are erased, and a key is given up, only when every file opens as
what the home becomes. Who calls has the home's lock for itself.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.storage import sqlite
from omnidraft.storage.encryption.copying import (
    convert_folder,
    decrypt,
    encrypt,
    refuse_links,
    refuse_open,
    refuse_unlike,
    remove_passing,
)
from omnidraft.storage.encryption.header import Header, Kind, Step, retire_header, write_header
from omnidraft.storage.files import erase, reason, sync_folder
from omnidraft.storage.paths import DataHome, measured
from omnidraft.storage.vault import Vault, part_of

NEW, OLD = ".profiles-new", ".profiles-old"
_PATIENCE = 5.0  # seconds; a program that starts makes folders before it looks who else is here
_FAILURES: tuple[type[Exception], ...] = (OSError, *sqlite.Error, OmniDraftError)


@dataclass
class Conversion:
    """One conversion of a home. vault: with its key, held by nobody meanwhile: paths are opened by what they are."""

    home: DataHome
    vault: Vault
    header: Header

    def run(self) -> Header | None:
        """Go on from where the header says; the header of the home as it is then, None for a plain one.

        StorageError if a file is open elsewhere or cannot be copied; the home is as before then.
        """
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
        if self.header.becomes == "encrypted":
            self._refuse_unlike("plain")  # before anything says that this key opens it
        write_header(self.home.root, self.header)
        try:
            refuse_open(self.home.profiles, lambda path: self._key(path, _other(self.header.becomes)))
            refuse_links(self.home.profiles)
            self._drop_new()
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
        self._drop_new()
        if self.header.becomes == "encrypted":
            self._refuse_unlike("plain")
            retire_header(self.home.root)
        else:
            write_header(self.home.root, replace(self.header, step="", becomes="encrypted"))

    def _drop_new(self) -> None:
        """What was begun is readable on the way back: it goes without a trace."""
        erase(self.home.root / NEW)

    def _erase(self) -> None:
        self._refuse_unlike(self.header.becomes)
        erase(self.home.root / OLD)
        if self.header.becomes == "plain":
            retire_header(self.home.root)
            return
        erase(self.home.root / "uploads")
        self._next("")

    def _refuse_unlike(self, kind: Kind) -> None:
        refuse_unlike(self.home.profiles, lambda path: self._key(path, kind))

    def _key(self, path: Path, kind: Kind) -> bytes | None:
        """What a file below the profiles is opened with if it is of that kind."""
        return None if kind == "plain" else self.vault.key(part_of(path.relative_to(self.home.profiles)))


def _other(kind: Kind) -> Kind:
    return "plain" if kind == "encrypted" else "encrypted"


def _need_space(home: DataHome) -> None:
    needed = int(measured(home.profiles) * 1.1)
    if needed > shutil.disk_usage(home.root).free:
        raise StorageError(f"Converting the data in {home.root} takes {needed / 1e6:,.0f} MB of free space for now.")


def _swap(home: DataHome) -> None:
    """Safe to repeat. A start in between may have made empty folders of profiles."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            _exchange(home.root / NEW, home.root / OLD, home.profiles)
            sync_folder(home.root)
            return
        except OSError as error:
            if time.monotonic() > give_up:
                raise StorageError(f"The data in {home.root} was not converted: {reason(error)}.") from error
        time.sleep(0.05)


def _exchange(new: Path, old: Path, now: Path) -> None:
    if not new.exists():
        return
    if not old.exists():
        os.rename(now, old)
    elif now.exists():
        remove_passing(now)
        for folder in sorted(now.rglob("*"), reverse=True):
            folder.rmdir()
        now.rmdir()
    os.rename(new, now)
