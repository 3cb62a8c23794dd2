"""A data home made encrypted, or plain again, so that a kill at any moment loses nothing and a repeated start goes on.

    copying    every profile is written anew into a folder beside, and each file checked against the one it is from
    swapping   the two folders change names
    erasing    the old files are overwritten and removed

The header says which step is due; each may be begun any number of times. Until the first is done the old files are
what counts, from then on the new ones. The old ones are erased, and a key is given up, only when every file opens as
what the home becomes. Who calls has the home's lock for itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.format import size
from omnidraft.storage import database
from omnidraft.storage.encryption.header import Header, Kind, Step, retire_header, write_header
from omnidraft.storage.files import erase, reason, sync_folder
from omnidraft.storage.paths import LOG_SUFFIXES, DataHome, make_folder, measured
from omnidraft.storage.vault import Vault, is_sealed, opens, part_of, seal, unseal

# A folder of profiles, or one profile, written anew with every file encrypted or readable, each compared with the old.
# Nothing is removed or renamed here, and what a file means is nobody's business: databases are copied by what SQLite
# says is in them, all others byte by byte.


_PASSING = (".incoming-", ".outgoing-", ".deleted-", ".new-", ".write-test-")  # what killed programs leave
_PASSING_ENDS = (".tmp", ".gguf-part", ".lock")
_DATABASE = ".sqlite"
_PLAIN = b"SQLite format 3\0"  # how a readable database begins
_BESIDE = (*(_DATABASE + suffix for suffix in LOG_SUFFIXES), ".lock")  # what means nothing without its program
Change = Callable[[bytes, Path, Path], None]  # with a key, an old file and a new one


def convert_folder(source: Path, target: Path, change: Change, vault: Vault, profiles: Path) -> None:
    """Every file, checked and down to the disk, with the time of the old one. profiles: where `source` counts from."""
    for file in _kept(source):
        made = target / file.relative_to(source)
        if file.is_dir():
            make_folder(made)
            continue
        change(vault.key(part_of(file.relative_to(profiles))), file, made)
        made.chmod(0o600)
        with open(made, "rb+") as written:
            os.fsync(written.fileno())
        status = file.stat()
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        sync_folder(folder)


def encrypt(key: bytes, source: Path, target: Path) -> None:
    if source.name.endswith(_DATABASE):
        _copy_database(source, target, None, key)
        return
    with open(source, "rb") as plain, open(target, "wb") as sealed:
        seal(plain, sealed, key)
    with open(target, "rb") as sealed:
        _same(source, sealed, key)


def decrypt(key: bytes, source: Path, target: Path) -> None:
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
        database.copy(source, target, old, new)
        if _content(target, new) == before:
            return
    except database.DatabaseError as error:
        raise StorageError(f"{source} cannot be copied ({error}); move it away if it is damaged.") from error
    raise StorageError(f"{source} could not be copied faithfully.")


def _same(source: Path, sealed, key: bytes) -> None:
    """StorageError unless what was sealed is the file, byte for byte."""
    found = hashlib.sha256()
    unseal(sealed, SimpleNamespace(write=found.update), key)  # type: ignore[arg-type]
    with open(source, "rb") as file:
        if hashlib.file_digest(file, "sha256").digest() != found.digest():
            raise StorageError(f"{source} could not be copied faithfully.")


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
    return database.connect_with(key, name, uri=True, timeout=0.2)


def refuse_open(profiles: Path, key_of: Callable[[Path], bytes | None]) -> None:
    """StorageError if another program has a database open. key_of: what a file is opened with, None for a plain one."""
    for path in profiles.rglob(f"*{_DATABASE}"):
        if path.stat().st_size:
            with closing(_open(path, key_of(path))) as connection:
                if database.is_shared(connection):
                    raise StorageError(f"{path} is in use; close the program that has it open.")


def refuse_unlike(profiles: Path, key_of: Callable[[Path], bytes | None]) -> None:
    """StorageError unless every file's beginning is what its key says. key_of: as for `refuse_open`.

    A sealed file's first block and a database's first page are authenticated; a plain one must not look like either.
    """
    for path in _kept(profiles):
        if path.is_file() and path.stat().st_size and not _begins_as(path, key_of(path)):
            wanted = "readable" if key_of(path) is None else "encrypted with this data's key"
            raise StorageError(f"{path} is not {wanted}, so nothing was changed; move it away if it is damaged.")


def _begins_as(path: Path, key: bytes | None) -> bool:
    with open(path, "rb") as file:
        if key is None:
            start = file.read(len(_PLAIN))
            return start == _PLAIN if path.name.endswith(_DATABASE) else not is_sealed(start)
        if not path.name.endswith(_DATABASE):
            return opens(file, key)
    try:
        with closing(_open(path, key)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except database.DatabaseError:
        return False
    return True


def refuse_links(profiles: Path) -> None:
    """StorageError for a folder that lies elsewhere: it would be left behind."""
    for path in (profiles, *profiles.rglob("*")):
        if path.is_symlink() and path.is_dir():
            raise StorageError(f"{path} is a link to a folder elsewhere; put the folder itself in its place first.")


def remove_passing(folder: Path) -> None:
    """Remove the files that a killed start left."""
    for file in folder.rglob("*"):
        if file.is_file() and _is_passing(file.name):
            file.unlink()


def _is_passing(name: str) -> bool:
    return name.startswith(_PASSING) or (name.startswith(".") and name.endswith(_PASSING_ENDS))


def _kept(source: Path) -> Iterator[Path]:
    """Every folder, before what is in it, and every file but SQLite's logs and what killed programs left."""
    for folder, inner, names in os.walk(source):
        yield Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith(_PASSING))
        for name in sorted(names):
            if not _is_passing(name) and not name.endswith(_BESIDE) and Path(folder, name).is_file():
                yield Path(folder, name)


NEW, OLD = ".profiles-new", ".profiles-old"
_PATIENCE = 5.0  # seconds; a program that starts makes folders before it looks who else is here
_FAILURES: tuple[type[Exception], ...] = (OSError, *database.Error, OmniDraftError)


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
        raise StorageError(f"Converting the data in {home.root} takes {size(needed)} of free space for now.")


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
