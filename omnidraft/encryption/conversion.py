"""A data home made encrypted, or plain again, so that a kill at any moment loses nothing and a repeated start goes on.

    copying    every profile is written anew into a folder beside, and each file checked against the one it is from
    swapping   the two folders change names
    erasing    the old files are overwritten and removed

The header says which step is due; each may be begun any number of times. Until the first is done the old files are
what counts, from then on the new ones.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft import sqlite
from omnidraft.encryption.header import Header, Step, write_header
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.file_lock import FileLock
from omnidraft.files import erase, reason, sync_folder
from omnidraft.paths import LOG_SUFFIXES, DataHome, make_folder, measured
from omnidraft.sealed import seal, unseal
from omnidraft.vault import HEADER, Vault, part_of

NEW, OLD = ".profiles-new", ".profiles-old"
LOCKS = ("encryption.lock", "app.lock")
_PASSING = (".incoming-", ".outgoing-", ".deleted-", ".new-", ".write-test-")  # what killed programs leave
_PASSING_ENDS = (".tmp", ".gguf-part", ".lock")
_DATABASE = ".sqlite"
_FAILURES: tuple[type[Exception], ...] = (OSError, *sqlite.Error, OmniDraftError)
Change = Callable[[bytes, Path, Path], None]  # with a key, an old file and a new one


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
            _refuse_open(self.home.profiles, self._source_key)
            _refuse_links(self.home.profiles)
            shutil.rmtree(self.home.root / NEW, ignore_errors=True)
            _need_space(self.home)
            change = _encrypt if self.header.becomes == "encrypted" else _decrypt
            _convert(self.home.profiles, self.home.root / NEW, change, self.vault, self.home.profiles)
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


def encrypt_folder(vault: Vault, plain: Path, sealed: Path) -> None:
    """Write a profile's readable files to `sealed`, a new folder among the profiles. StorageError, OSError."""
    _convert(plain, sealed, _encrypt, vault, plain.parent)


def _convert(source: Path, target: Path, change: Change, vault: Vault, profiles: Path) -> None:
    """Every file, checked and down to the disk, with the time of the old one. profiles: where `source` counts from."""
    make_folder(target)
    for file in _files(source):
        made = target / file.relative_to(source)
        _make_folders(target, made.parent)
        change(vault.key(part_of(file.relative_to(profiles))), file, made)
        made.chmod(0o600)
        with open(made, "rb+") as written:
            os.fsync(written.fileno())
        status = file.stat()
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        sync_folder(folder)


def _encrypt(key: bytes, source: Path, target: Path) -> None:
    if source.name.endswith(_DATABASE):
        _copy_database(source, target, None, key)
        return
    with open(source, "rb") as plain, open(target, "wb") as sealed:
        seal(plain, sealed, key)
    with open(target, "rb") as sealed:
        _same(source, sealed, key)


def _decrypt(key: bytes, source: Path, target: Path) -> None:
    if source.name.endswith(_DATABASE):
        _copy_database(source, target, key, None)
        return
    with open(source, "rb") as sealed, open(target, "wb") as plain:
        try:
            unseal(sealed, plain, key)
        except StorageError as error:
            raise StorageError(f"{source} {error}.") from None


def _copy_database(source: Path, target: Path, old: bytes | None, new: bytes | None) -> None:
    """old, new: the keys; None for the one that is plain."""
    target.touch()
    if not source.stat().st_size:
        return
    try:
        before = _content(source, old)
        if new is not None:
            sqlite.copy_sealed(new, source, target)
        elif old is not None:
            sqlite.copy_open(old, source, target)
        if _content(target, new) == before:
            return
    except sqlite.DatabaseError as error:
        raise StorageError(f"{source} cannot be copied ({error}); move it away if it is damaged.") from error
    raise StorageError(f"{source} could not be copied faithfully.")


def _same(source: Path, sealed, key: bytes) -> None:
    """StorageError unless what was sealed is the file, byte for byte."""
    found = _Digest()
    unseal(sealed, found, key)  # type: ignore[arg-type]
    with open(source, "rb") as file:
        if hashlib.file_digest(file, "sha256").digest() != found.digest():
            raise StorageError(f"{source} could not be copied faithfully.")


class _Digest:
    """A file that is only hashed."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return len(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _content(path: Path, key: bytes | None) -> str:
    """A digest of all tables and marks of a database that is whole. Raises `DatabaseError`s."""
    found = hashlib.sha256()
    with closing(_open(path, key)) as connection:
        (checked,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if checked != "ok":
            raise sqlite3.DatabaseError(checked)
        for mark in ("application_id", "user_version"):
            found.update(repr(connection.execute(f"PRAGMA {mark}").fetchone()).encode())
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name"
        for (table,) in connection.execute(tables).fetchall():
            found.update(table.encode())
            quoted = table.replace('"', '""')
            for row in connection.execute(f'SELECT * FROM "{quoted}"'):
                found.update(repr(row).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def _open(path: Path, key: bytes | None) -> sqlite3.Connection:
    name = f"{path.absolute().as_uri()}?mode=rw"
    if key is None:
        return sqlite3.connect(name, uri=True, timeout=0.2)
    return sqlite.connect_with(key, name, uri=True, timeout=0.2)


def _refuse_open(profiles: Path, key_of) -> None:
    for path in profiles.rglob(f"*{_DATABASE}"):
        if path.stat().st_size:
            with closing(_open(path, key_of(path))) as connection:
                if sqlite.is_shared(connection):
                    raise StorageError(f"{path} is in use; close the program that has it open.")


def _refuse_links(profiles: Path) -> None:
    for path in (profiles, *profiles.rglob("*")):
        if path.is_symlink() and path.is_dir():
            raise StorageError(f"{path} is a link to a folder elsewhere; put the folder itself in its place first.")


def _need_space(home: DataHome) -> None:
    needed = int(measured(home.profiles) * 1.1)
    if needed > shutil.disk_usage(home.root).free:
        raise StorageError(f"Converting the data in {home.root} takes {needed / 1e6:,.0f} MB of free space for now.")


def _files(profiles: Path) -> Iterator[Path]:
    """What is kept, without SQLite's logs and what killed programs left."""
    for folder, inner, names in os.walk(profiles):
        inner[:] = sorted(name for name in inner if not name.startswith(_PASSING))
        for name in sorted(names):
            passing = name.startswith(_PASSING) or (name.startswith(".") and name.endswith(_PASSING_ENDS))
            if not passing and not name.endswith((*LOG_SUFFIXES, ".lock")) and Path(folder, name).is_file():
                yield Path(folder, name)


def _make_folders(root: Path, folder: Path) -> None:
    """`folder` with those between it and `root`, each for its owner alone."""
    for path in reversed([folder, *folder.parents]):
        if path.is_relative_to(root):
            make_folder(path)


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
