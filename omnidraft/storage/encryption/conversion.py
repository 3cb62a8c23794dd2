"""A data home made encrypted, or plain again, so that a kill at any moment leaves one that opens.

Every profile is written anew into a folder beside, each file checked against the one it is from. Then the header comes
or goes, which decides what the home is; the two folders change names, and the old files are overwritten and removed.
What a conversion leaves that was killed is told from its name: a folder that is not of the kind the header says is
erased, one that is takes the profiles' place. Old files go only when every file opens as what the home is. Who calls
has the home's lock for itself.
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
from omnidraft.storage.sealed import is_sealed, opens, seal, unseal
from omnidraft.storage.vault import Vault, part_of

_PASSING = (".incoming-", ".outgoing-", ".deleted-", ".new-", ".write-test-")  # what killed programs leave
_PASSING_ENDS = (".tmp", ".gguf-part", ".lock")
_DATABASE = ".sqlite"
_PLAIN = b"SQLite format 3\0"  # how a readable database begins
_BESIDE = (*(_DATABASE + suffix for suffix in LOG_SUFFIXES), ".lock")  # what means nothing without its program
Change = Callable[[bytes, Path, Path], None]  # with a key, an old file and a new one
KeyOf = Callable[[Path], bytes]  # what a file below the profiles is opened with; b"" where all are readable

MADE, OLD = {True: ".profiles-encrypted", False: ".profiles-plain"}, ".profiles-old"
_FAILURES: tuple[type[Exception], ...] = (OSError, *database.Error, OmniDraftError)


def _keys(root: Path, key: bytes) -> KeyOf:
    profiles, keys = DataHome(root).profiles, Vault(root, key, memory=root)
    return lambda path: keys.key(part_of(path.relative_to(profiles))) if key else b""


def convert(root: Path, key: bytes, encrypted: bool, decide: Callable[[], None]) -> None:
    """Have the home be encrypted with this key, or readable; by `decide` its header says so.

    StorageError if a file is open elsewhere, is not what it should be or cannot be copied; the home is as before then.
    """
    profiles, made, was = DataHome(root).profiles, root / MADE[encrypted], b"" if encrypted else key
    try:
        refuse_unlike(root, was)
        _refuse_open(root, was)
        _refuse_links(profiles)
        _need_space(root)
        _write_anew(profiles, made, encrypt if encrypted else decrypt, _keys(root, key))
    except _FAILURES as error:
        erase(made)
        if isinstance(error, OmniDraftError):
            raise
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise StorageError(f"The data in {root} was not converted: {why}.") from error
    decide()
    settle(root, key if encrypted else b"")


def is_unsettled(root: Path) -> bool:
    """Whether a conversion left something."""
    return any((root / name).exists() for name in (*MADE.values(), OLD))


def settle(root: Path, key: bytes) -> None:
    """Have nothing in the home but what its header says; key: in that, b"" without one."""
    made, old, profiles = root / MADE[bool(key)], root / OLD, DataHome(root).profiles
    erase(root / MADE[not key])
    try:
        if made.exists() and not old.exists():
            os.rename(profiles, old)
        if made.exists():
            erase(profiles)  # empty folders, which a program made that started in between
            os.rename(made, profiles)
            sync_folder(root)
    except OSError as error:
        raise StorageError(f"The data in {root} was not converted: {reason(error)}.") from error
    if old.exists():
        refuse_unlike(root, key)
        if key:
            erase(root / "uploads")
        erase(old)


def _need_space(root: Path) -> None:
    needed = int(measured(DataHome(root).profiles) * 1.1)
    if needed > shutil.disk_usage(root).free:
        raise StorageError(f"Converting the data in {root} takes {size(needed)} of free space for now.")


# What a file means is nobody's business here: databases are copied by what SQLite says is in them, all others byte by
# byte.


def _write_anew(source: Path, target: Path, change: Change, key_of: KeyOf) -> None:
    """Every file, checked and down to the disk, with the time of the old one."""
    for file in _kept(source):
        made = target / file.relative_to(source)
        if file.is_dir():
            make_folder(made)
            continue
        change(key_of(file), file, made)
        made.chmod(0o600)
        with open(made, "rb+") as written:
            os.fsync(written.fileno())
        status = file.stat()
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        sync_folder(folder)


def encrypt(key: bytes, source: Path, target: Path) -> None:
    if source.name.endswith(_DATABASE):
        _copy_database(source, target, b"", key)
        return
    with open(source, "rb") as plain, open(target, "wb") as sealed:
        seal(plain, sealed, key)
    with open(target, "rb") as sealed:
        _same(source, sealed, key)


def decrypt(key: bytes, source: Path, target: Path) -> None:
    if source.name.endswith(_DATABASE):
        _copy_database(source, target, key, b"")
        return
    with open(source, "rb") as sealed, open(target, "wb") as plain:
        try:
            unseal(sealed, plain, key)
        except StorageError as error:
            raise StorageError(f"{source} {error}.") from None


def _copy_database(source: Path, target: Path, old: bytes, new: bytes) -> None:
    """old, new: the keys; b"" for the one that is plain."""
    target.touch()
    if not source.stat().st_size:
        return
    try:
        before = _content(source, old)
        database.copy(source, target, old or None, new or None)
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


def _refuse_open(root: Path, key: bytes) -> None:
    """StorageError if another program has a database open."""
    key_of = _keys(root, key)
    for path in DataHome(root).profiles.rglob(f"*{_DATABASE}"):
        if path.stat().st_size:
            with closing(_open(path, key_of(path))) as connection:
                if database.is_shared(connection):
                    raise StorageError(f"{path} is in use; close the program that has it open.")


def refuse_unlike(root: Path, key: bytes) -> None:
    """StorageError unless every file's beginning is what its key says; key: the home's, b"" of a plain one.

    A sealed file's first block and a database's first page are authenticated; a plain one must not look like either.
    """
    key_of = _keys(root, key)
    for path in _kept(DataHome(root).profiles):
        if path.is_file() and path.stat().st_size and not _begins_as(path, key_of(path)):
            wanted = "encrypted with this data's key" if key else "readable"
            raise StorageError(f"{path} is not {wanted}, so nothing was changed; move it away if it is damaged.")


def _begins_as(path: Path, key: bytes) -> bool:
    with open(path, "rb") as file:
        if not key:
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


def _refuse_links(profiles: Path) -> None:
    """StorageError for a folder that lies elsewhere: it would be left behind."""
    for path in (profiles, *profiles.rglob("*")):
        if path.is_symlink() and path.is_dir():
            raise StorageError(f"{path} is a link to a folder elsewhere; put the folder itself in its place first.")


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
