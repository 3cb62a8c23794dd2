"""A data home is opened: made encrypted or gone on with if that is wanted, its key unwrapped and held.

Asks nobody itself (`passphrase`), and touches no file (`header`, `conversion`).
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

from omnidraft.errors import SettingsError, StorageError
from omnidraft.processes import system
from omnidraft.storage import vault
from omnidraft.storage.encryption.conversion import Conversion
from omnidraft.storage.encryption.header import COST, Header, read_header, wrap, write_header
from omnidraft.storage.encryption.passphrase import Asked
from omnidraft.storage.paths import DataHome, data_root, find_data_home
from omnidraft.storage.sealed import KEY_BYTES
from omnidraft.storage.vault import Vault, locked

LIBRARIES = ("cryptography", "sqlcipher3")
NOT_ENCRYPTED = "The data in {} is not encrypted."


def open_home(explicit: Path | str | None, asked: Asked, encrypt: bool = False, cost: int = COST) -> Vault | None:
    """Hold the key of the data home that `find_data_home(explicit)` names; None if it is not encrypted.

    encrypt: make it so first, if it is not. A conversion that was interrupted is ended first. SettingsError if there
    is no passphrase or a wrong one, StorageError if the home cannot be converted or this system cannot do it.
    """
    root = data_root(explicit)
    header = read_header(root)
    if header is None and not encrypt:
        return None
    _check_system()
    if header is None:
        passphrase = asked.new(
            "Encrypting needs a passphrase: start OmniDraft on a terminal, or give it with --passphrase-file or the "
            "variable OMNIDRAFT_PASSPHRASE."
        )
        key = os.urandom(KEY_BYTES)
        header = replace(wrap(key, passphrase, cost), step="copying")
    else:
        key = header.key(asked.known(locked(root)))
    opened = _settled(find_data_home(root), header, key)
    if opened is not None:
        opened.hold()
    elif encrypt:  # an interrupted way back has just ended
        return open_home(root, asked, encrypt, cost)
    return opened


def make_plain(explicit: Path | str | None, asked: Asked) -> Path:
    """Make an encrypted home readable to everybody again; where it is."""
    root = data_root(explicit)
    header, key = _unwrapped(root, asked)
    if header.step and header.becomes == "encrypted":
        raise StorageError(f"Encrypting the data in {root} was interrupted; start OmniDraft once to end it.")
    if not header.step:
        header = replace(header, step="copying", becomes="plain")
    _settled(DataHome(root), header, key)
    return root


def change_passphrase(explicit: Path | str | None, asked: Asked, new: Asked) -> Path:
    """Have the key wrapped by another passphrase; where the home is."""
    root = data_root(explicit)
    header, key = _unwrapped(root, asked)
    missing = "Give the new passphrase on a terminal, with --new-passphrase-file or OMNIDRAFT_NEW_PASSPHRASE."
    write_header(root, header.rewrapped(key, new.new(missing)))
    return root


def _unwrapped(root: Path, asked: Asked) -> tuple[Header, bytes]:
    header = read_header(root)
    if header is None:
        raise SettingsError(NOT_ENCRYPTED.format(root))
    _check_system()
    return header, header.key(asked.known(locked(root)))


def _settled(home: DataHome, header: Header, key: bytes) -> Vault | None:
    """The vault of a home in which no conversion is due; None if it is plain."""
    vault.sweep()
    opened = Vault(home.root, key)
    try:
        if header.step and Conversion(home, opened, header).run() is None:
            opened.close()
            return None
    except BaseException:
        opened.close()
        raise
    return opened


def _check_system() -> None:
    """SettingsError in a sentence if this machine cannot keep encrypted data."""
    if system.memory_folder() is None:
        raise SettingsError(system.NO_MEMORY_FOLDER)
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is None:
            raise SettingsError(f"Encrypted data needs {library}, which is not installed; it is in requirements.txt.")
