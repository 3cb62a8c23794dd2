"""A data home is opened: made encrypted if that is wanted, its key unwrapped and held.

Every program that uses a home shares its lock; one that converts it or changes its header has the lock for itself. A
header is looked at first, so that nobody waits while another types a passphrase, and counts only if it is the same once
the lock is there. Asks nobody itself (`passphrase`), and touches no file (`header`, `conversion`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnidraft.errors import SettingsError, StorageError
from omnidraft.processes import system
from omnidraft.storage import vault
from omnidraft.storage.encryption.conversion import convert, is_unsettled, refuse_unlike, settle
from omnidraft.storage.encryption.header import Header, header_copies, read_header, retire_header, wrap, write_header
from omnidraft.storage.encryption.passphrase import Asked
from omnidraft.storage.files import erase
from omnidraft.storage.paths import data_root, find_data_home
from omnidraft.storage.scratch import FileLock
from omnidraft.storage.sealed import KEY_BYTES
from omnidraft.storage.vault import HEADER, LOCK, Vault, busy, locked

LIBRARIES = ("cryptography", "sqlcipher3")
NOT_ENCRYPTED = "The data in {} is not encrypted."
_NEEDS_NEW = (
    "Encrypting needs a passphrase: start OmniDraft on a terminal, or give it with --passphrase-file or the variable "
    "OMNIDRAFT_PASSPHRASE."
)


class Opened:
    """A data home that this program uses: nobody converts it before `close`. vault: None of a plain one."""

    def __init__(self, vault: Vault | None, lock: FileLock) -> None:
        self.vault, self._lock = vault, lock

    def close(self) -> None:
        if self.vault is not None:
            self.vault.close()
        self._lock.release()


def open_home(explicit: Path | str | None, asked: Asked, encrypt: bool = False) -> Opened:
    """Use the data home that `find_data_home(explicit)` names, and hold its key if it is encrypted.

    encrypt: make it so first, if it is not. What an interrupted conversion left goes first. SettingsError if there is
    no passphrase or a wrong one, StorageError if the home cannot be converted or this system cannot do it.
    """
    home = _Home(data_root(explicit), asked)
    while True:
        header = read_header(home.root)
        if (header is None and encrypt) or is_unsettled(home.root):
            home.settle(encrypt)
            continue
        key = home.key(header)
        lock = _shared(home.root)
        if read_header(home.root) == header:
            return _opened(home.root, key, lock)
        lock.release()


def make_plain(explicit: Path | str | None, asked: Asked) -> Path:
    """Make an encrypted home readable to everybody again; where it is."""
    home = _Home(data_root(explicit), asked)
    with home.alone() as (header, key):
        if header is not None:  # else an interrupted way back has just ended
            convert(home.root, key, False, lambda: retire_header(home.root))
    return home.root


def change_passphrase(explicit: Path | str | None, asked: Asked, new: Asked) -> Path:
    """Have the key wrapped by another passphrase; where the home is."""
    home = _Home(data_root(explicit), asked)
    home.key(read_header(home.root))  # who does not know the old one is not asked for another
    missing = "Give the new passphrase on a terminal, with --new-passphrase-file or OMNIDRAFT_NEW_PASSPHRASE."
    new.new(missing)
    with home.alone() as (header, key):
        if header is None:
            raise SettingsError(NOT_ENCRYPTED.format(home.root))
        refuse_unlike(home.root, key)
        write_header(home.root, wrap(key, new.new(missing), header.cost))
    return home.root


class _Home:
    """A home and who knows its passphrase, and is asked for it once."""

    def __init__(self, root: Path, asked: Asked) -> None:
        self.root, self._asked = root, asked
        self._known: tuple[Header | None, bytes] = None, b""

    def key(self, header: Header | None) -> bytes:
        """The key in a header; b"" where there is none."""
        if header is None:
            return b""
        _check_system()
        if self._known[0] != header:
            self._known = header, header.key(self._asked.known(locked(self.root)))
        return self._known[1]

    @contextmanager
    def alone(self, plain: bool = False) -> Iterator[tuple[Header | None, bytes]]:
        """The header and its key as they are while no other program uses the home, and nothing of a conversion is left
        in it. StorageError if a program does.

        plain: it may be plain; SettingsError otherwise.
        """
        lock = FileLock(self.root / LOCK)
        while True:
            header = read_header(self.root)
            key = self.key(header)
            if header is None and not (plain or is_unsettled(self.root)):
                raise SettingsError(NOT_ENCRYPTED.format(self.root))
            if not lock.acquire():
                raise StorageError(busy(self.root))
            if read_header(self.root) == header:
                break
            lock.release()
        try:
            vault.sweep()
            settle(self.root, key)
            yield header, key
        finally:
            lock.release()

    def settle(self, encrypt: bool) -> None:
        """Remove what a conversion left; then, if the home is plain, make it encrypted if that is wanted."""
        _check_system()
        if encrypt and read_header(self.root) is None:
            self._asked.new(_NEEDS_NEW)
        find_data_home(self.root)
        with self.alone(plain=True) as (header, _):
            if header is None and encrypt:
                key = os.urandom(KEY_BYTES)
                made = wrap(key, self._asked.new(_NEEDS_NEW))
                convert(self.root, key, True, lambda: write_header(self.root, made))


def _shared(root: Path) -> FileLock:
    """The lock on a home that nobody converts; StorageError if somebody does."""
    lock = FileLock(root / LOCK)
    with suppress(OSError):  # who makes the home, or writes there, says what is wrong with its place
        if root.is_dir() and not lock.acquire(shared=True):
            raise StorageError(busy(root))
    return lock


def _opened(root: Path, key: bytes, lock: FileLock) -> Opened:
    """The lock goes with what is returned, and is released if nothing is."""
    try:
        _drop_copies(root, key)
        if not key:
            return Opened(None, lock)
        vault.sweep()
        opened = Vault(root, key)
        opened.hold()
        return Opened(opened, lock)
    except BaseException:
        lock.release()
        raise


def _drop_copies(root: Path, key: bytes) -> None:
    """Erase the headers of earlier states, if every file opens as what the home is now."""
    copies = header_copies(root)
    if not copies:
        return
    try:
        refuse_unlike(root, key)
    except StorageError as error:
        if not key:
            raise StorageError(f"{error} {HEADER} is missing, and {copies[-1]} is its last copy.") from None
        return  # damaged, or written just now: the next start looks again
    for copy in copies:
        erase(copy)


def _check_system() -> None:
    """SettingsError in a sentence if this machine cannot keep encrypted data."""
    if system.memory_folder() is None:
        raise SettingsError(system.NO_MEMORY_FOLDER)
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise SettingsError(f"Encrypted data needs {library}, which is not installed; it is in requirements.txt.")
