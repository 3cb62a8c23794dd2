"""A data home is opened: made encrypted if that is wanted, its key unwrapped and held.

Every program that uses a home shares its lock; one that converts it or changes its header has the lock for itself, and
the header counts only as it is then. Who types a passphrase does so before, so that nobody waits for it. Asks nobody
itself (`passphrase`), and touches no file of a profile (`conversion`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from omnidraft.errors import SettingsError, StorageError
from omnidraft.processes import system
from omnidraft.storage import vault
from omnidraft.storage.encryption.conversion import convert, is_unsettled, settle
from omnidraft.storage.encryption.header import Header, drop_header, read_header, wrap, write_header
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


@contextmanager
def open_home(explicit: Path | str | None, asked: Asked, encrypt: bool = False) -> Iterator[None]:
    """In the block this program uses the data home that `find_data_home(explicit)` names: nobody converts it, and its
    key is held if it is encrypted.

    encrypt: make it so first, if it is not. What an interrupted conversion left goes first. SettingsError if there is
    no passphrase or a wrong one, StorageError if the home cannot be converted or this system cannot do it.
    """
    root = data_root(explicit)
    while True:
        _ask(root, asked, encrypt)
        with _shared(root):
            header = read_header(root)
            if not is_unsettled(root) and not (encrypt and header is None):
                with _held(root, header, asked):
                    yield
                return
        find_data_home(root)
        with _alone(root) as header:
            if encrypt and header is None:
                key = os.urandom(KEY_BYTES)
                convert(root, b"", key, partial(write_header, root, wrap(key, asked.new(_NEEDS_NEW))))


def make_plain(explicit: Path | str | None, asked: Asked) -> Path:
    """Make an encrypted home readable to everybody again; where it is."""
    root = data_root(explicit)
    with _encrypted(root, asked) as (_, key):
        convert(root, key, b"", partial(drop_header, root))
    return root


def change_passphrase(explicit: Path | str | None, asked: Asked, new: Asked) -> Path:
    """Have the key wrapped by another passphrase; where the home is."""
    root = data_root(explicit)
    missing = "Give the new passphrase on a terminal, with --new-passphrase-file or OMNIDRAFT_NEW_PASSPHRASE."
    with _encrypted(root, asked) as (header, key):  # who does not know the old one is not asked for another
        write_header(root, wrap(key, new.new(missing), header.cost))
    return root


def _ask(root: Path, asked: Asked, encrypt: bool = False) -> None:
    """Have a passphrase typed that will be needed if the home stays as it is."""
    if read_header(root) is not None:
        _known(root, asked)
    elif encrypt:
        _check_system()
        asked.new(_NEEDS_NEW)


def _known(root: Path, asked: Asked) -> str:
    _check_system()
    return asked.known(locked(root))


@contextmanager
def _alone(root: Path) -> Iterator[Header | None]:
    """The home's header while no other program uses it (StorageError if one does); what conversions left is gone."""
    lock = FileLock(root / LOCK)
    if not lock.acquire():
        raise StorageError(busy(root))
    try:
        vault.sweep()
        header = read_header(root)
        settle(root)
        yield header
    finally:
        lock.release()


@contextmanager
def _encrypted(root: Path, asked: Asked) -> Iterator[tuple[Header, bytes]]:
    """Header and key of an encrypted home while no other program uses it. SettingsError of a plain one."""
    if read_header(root) is not None:
        _known(root, asked)
        with _alone(root) as header:
            if header is not None:
                yield header, header.key(_known(root, asked))
                return
    raise SettingsError(NOT_ENCRYPTED.format(root))


@contextmanager
def _shared(root: Path) -> Iterator[None]:
    """Nobody converts the home in the block; StorageError if somebody does."""
    lock = FileLock(root / LOCK)
    with suppress(OSError):  # who makes the home, or writes there, says what is wrong with its place
        if root.is_dir() and not lock.acquire(shared=True):
            raise StorageError(busy(root))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _held(root: Path, header: Header | None, asked: Asked) -> Iterator[None]:
    """The key of a home is held in the block, if it is encrypted."""
    if header is None:
        yield
        return
    key = header.key(_known(root, asked))
    for copy in root.glob(f"{HEADER}.*"):  # of the header before, as earlier versions left them
        erase(copy)
    vault.sweep()
    with closing(Vault(root, key)) as held:
        held.hold()
        yield


def _check_system() -> None:
    """SettingsError in a sentence if this machine cannot keep encrypted data."""
    if system.memory_folder() is None:
        raise SettingsError(system.NO_MEMORY_FOLDER)
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise SettingsError(f"Encrypted data needs {library}, which is not installed; it is in requirements.txt.")
