"""A folder of profiles, or one profile, written anew with every file encrypted or readable, each compared with the old.

Nothing is removed or renamed here, and what a file means is nobody's business: databases are copied by what SQLite says
is in them, all others byte by byte.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from omnidraft.errors import StorageError
from omnidraft.storage import sqlite
from omnidraft.storage.files import sync_folder
from omnidraft.storage.paths import LOG_SUFFIXES, make_folder
from omnidraft.storage.sealed import is_sealed, opens, seal, unseal
from omnidraft.storage.vault import Vault, part_of

_PASSING = (".incoming-", ".outgoing-", ".deleted-", ".new-", ".write-test-")  # what killed programs leave
_PASSING_ENDS = (".tmp", ".gguf-part", ".lock")
_DATABASE = ".sqlite"
_PLAIN = b"SQLite format 3\0"  # how a readable database begins
_BESIDE = (*(_DATABASE + suffix for suffix in LOG_SUFFIXES), ".lock")  # what means nothing without its program
Change = Callable[[bytes, Path, Path], None]  # with a key, an old file and a new one


def encrypt_folder(vault: Vault, plain: Path, sealed: Path) -> None:
    """Write a profile's readable files to `sealed`, a new folder among the profiles. StorageError, OSError."""
    convert_folder(plain, sealed, encrypt, vault, plain.parent)


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
    return sqlite.connect_with(key, name, uri=True, timeout=0.2)


def refuse_open(profiles: Path, key_of: Callable[[Path], bytes | None]) -> None:
    """StorageError if another program has a database open. key_of: what a file is opened with, None for a plain one."""
    for path in profiles.rglob(f"*{_DATABASE}"):
        if path.stat().st_size:
            with closing(_open(path, key_of(path))) as connection:
                if sqlite.is_shared(connection):
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
    except sqlite.DatabaseError:
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
