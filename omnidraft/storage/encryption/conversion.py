"""A data home made encrypted, or plain again, so that a kill at any moment leaves one that opens.

Every profile is written anew into a folder beside, each file checked against the one it is from. Then the header comes
or goes, which decides what the home is; the two folders change names, and the old files are overwritten and removed.
What a conversion leaves that was killed is told from its name: a folder that is not of the kind the header says is
erased, one that is takes the profiles' place. Who calls has the home's lock for itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.format import size
from omnidraft.storage import database
from omnidraft.storage.files import erase, reason, sync_folder
from omnidraft.storage.paths import LOG_SUFFIXES, DataHome, make_folder, measured
from omnidraft.storage.sealed import is_sealed, seal, unseal
from omnidraft.storage.vault import HEADER, Vault, part_of

_PASSING = (".incoming-", ".outgoing-", ".deleted-", ".new-", ".write-test-")  # what killed programs leave
_PASSING_ENDS = (".tmp", ".gguf-part", ".lock")
_DATABASE = ".sqlite"
_BESIDE = (*(_DATABASE + suffix for suffix in LOG_SUFFIXES), ".lock")  # what means nothing without its program
MADE, OLD = {True: ".profiles-encrypted", False: ".profiles-plain"}, ".profiles-old"
_FAILURES: tuple[type[Exception], ...] = (OSError, *database.Error, OmniDraftError)


def convert(root: Path, old: bytes, new: bytes, decide: Callable[[], None]) -> None:
    """Have the home be encrypted with the key `new`, or readable (b""), as it was with `old`; by `decide` its header
    says so.

    StorageError if a file is open elsewhere, is not what it should be or cannot be copied; the home is as before then.
    """
    profiles, made = DataHome(root).profiles, root / MADE[bool(new)]
    vaults = [Vault(root, key, memory=root) if key else None for key in (old, new)]
    try:
        _need_space(root)
        for file in _kept(profiles):
            part = part_of(file.relative_to(profiles)) if file != profiles else ""
            _write_anew(file, made / file.relative_to(profiles), *(v.key(part) if v else b"" for v in vaults))
        for folder in (made, *(path for path in made.rglob("*") if path.is_dir())):
            sync_folder(folder)
    except _FAILURES as error:
        erase(made)
        if isinstance(error, OmniDraftError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StorageError(f"The data in {root} was not converted: {why}.") from error
    try:
        decide()
    finally:
        settle(root)


def is_unsettled(root: Path) -> bool:
    """Whether a conversion left something."""
    return any((root / name).exists() for name in (*MADE.values(), OLD))


def settle(root: Path) -> None:
    """Have nothing in the home but what its header says."""
    encrypted, old, profiles = (root / HEADER).exists(), root / OLD, DataHome(root).profiles
    made = root / MADE[encrypted]
    erase(root / MADE[not encrypted])
    try:
        if made.exists() and not old.exists():
            os.rename(profiles, old)
        if made.exists():
            erase(profiles)  # empty folders, which a program made that started in between
            os.rename(made, profiles)
            sync_folder(root)
    except OSError as error:
        raise StorageError(f"The data in {root} was not converted: {reason(error)}.") from error
    if old.exists() and encrypted:
        erase(root / "uploads")
    erase(old)


def _need_space(root: Path) -> None:
    needed = int(measured(DataHome(root).profiles) * 1.1)
    if needed > shutil.disk_usage(root).free:
        raise StorageError(f"Converting the data in {root} takes {size(needed)} of free space for now.")


# What a file means is nobody's business here: databases are copied by what SQLite says is in them, all others byte by
# byte.


def _write_anew(source: Path, made: Path, old: bytes, new: bytes) -> None:
    """A folder, or a file, checked and down to the disk, with the time of the old one. old, new: the keys; b"" for the
    one that is plain."""
    if source.is_dir():
        make_folder(made)
        return
    (_copy_database if source.name.endswith(_DATABASE) else _copy_file)(source, made, old, new)
    made.chmod(0o600)
    with open(made, "rb+") as written:
        os.fsync(written.fileno())
    status = source.stat()
    os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(source: Path, made: Path, old: bytes, new: bytes) -> None:
    found = hashlib.sha256()
    with open(source, "rb") as given, open(made, "wb+") as written:
        if old:
            try:
                unseal(given, written, old)
            except StorageError as error:
                raise StorageError(f"{source} {error}.") from None
            return
        if is_sealed(given.read(64)):
            raise StorageError(f"{source} is not readable, so nothing was changed; move it away if it is damaged.")
        given.seek(0)
        seal(given, written, new)
        given.seek(0)
        written.seek(0)
        unseal(written, SimpleNamespace(write=found.update), new)  # type: ignore[arg-type]
        if hashlib.file_digest(given, "sha256").digest() != found.digest():
            raise StorageError(f"{source} could not be copied faithfully.")


def _copy_database(source: Path, made: Path, old: bytes, new: bytes) -> None:
    made.touch()
    if not source.stat().st_size:
        return
    try:
        with closing(_open(source, old)) as connection:
            if database.is_shared(connection):
                raise StorageError(f"{source} is in use; close the program that has it open.")
        before = _content(source, old)
        database.copy(source, made, old or None, new or None)
        if _content(made, new) == before:
            return
    except database.DatabaseError as error:
        raise StorageError(f"{source} cannot be copied ({error}); move it away if it is damaged.") from error
    raise StorageError(f"{source} could not be copied faithfully.")


def _content(path: Path, key: bytes) -> str:
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


def _open(path: Path, key: bytes) -> sqlite3.Connection:
    name = f"{path.absolute().as_uri()}?mode=rw"
    if not key:
        return sqlite3.connect(name, uri=True, timeout=0.2)
    return database.connect_with(key, name, uri=True, timeout=0.2)


def _is_passing(name: str) -> bool:
    return name.startswith(_PASSING) or (name.startswith(".") and name.endswith(_PASSING_ENDS))


def _kept(source: Path) -> Iterator[Path]:
    """Every folder, before what is in it, and every file but SQLite's logs and what killed programs left. StorageError
    for a folder that lies elsewhere: it would be left behind."""
    for folder, inner, names in os.walk(source):
        for path in (source, *(Path(folder, name) for name in inner)):
            if path.is_symlink():
                raise StorageError(f"{path} is a link to a folder elsewhere; put the folder itself in its place first.")
        yield Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith(_PASSING))
        for name in sorted(names):
            if not _is_passing(name) and not name.endswith(_BESIDE) and Path(folder, name).is_file():
                yield Path(folder, name)
