"""The file that makes a data home an encrypted one: its key, wrapped by a passphrase.

The passphrase is stretched by scrypt; the wrapped key is authenticated, so a wrong passphrase is known for one before
anything is read. Another passphrase wraps the same key anew, in the place of the file as it was; no other file changes.
Knows nothing of what is encrypted.
"""

from __future__ import annotations

import json
import os
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.files import read_json, reason, sync_folder, write_atomically
from omnidraft.storage.sealed import KEY_BYTES
from omnidraft.storage.vault import HEADER

FORMAT = "omnidraft-encryption"
VERSION = 1
SHORTEST = 8  # characters of a passphrase
COST = 1 << 17  # scrypt's: 128 MiB of memory and about half a second a guess
_LEAST, _MOST = 1 << 10, 1 << 20  # a planted header shall not take all memory
_BLOCKS, _NONCE = 8, 12


@dataclass(frozen=True)
class Header:
    """A home's key as a passphrase wraps it; cost: scrypt's."""

    salt: bytes
    cost: int
    nonce: bytes
    wrapped: bytes

    def key(self, passphrase: str) -> bytes:
        """The home's key. SettingsError for a wrong passphrase."""
        from cryptography.exceptions import InvalidTag

        try:
            return _cipher(passphrase, self.salt, self.cost).decrypt(self.nonce, self.wrapped, _about(self.cost))
        except InvalidTag:
            raise SettingsError("That is not the passphrase of this data; nothing was changed.") from None


def wrap(key: bytes, passphrase: str, cost: int | None = None) -> Header:
    """A header for a key; cost: scrypt's, COST by default. SettingsError for a passphrase that is too short."""
    cost = cost or COST
    if len(passphrase) < SHORTEST:
        raise SettingsError(f"A passphrase needs at least {SHORTEST} characters; several words are a good one.")
    salt, nonce = os.urandom(KEY_BYTES), os.urandom(_NONCE)
    return Header(salt, cost, nonce, _cipher(passphrase, salt, cost).encrypt(nonce, key, _about(cost)))


def read_header(root: Path) -> Header | None:
    """The header of a data home; None if it is not encrypted. StorageError for one that is none."""
    path = root / HEADER
    try:
        values = read_json(path.read_bytes())
        if values["format"] != FORMAT or values["version"] != VERSION:
            raise StorageError(f"{path} was written by another version of OmniDraft.")
        given = {name: bytes.fromhex(values[name]) for name in ("salt", "nonce", "wrapped")}
        header = Header(cost=int(values["cost"]), **given)
        if values.get("step"):
            raise StorageError(f"{path}: an earlier version was converting this data; start that once more to end it.")
    except (FileNotFoundError, NotADirectoryError):  # who makes the home says what is wrong with its place
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {reason(error)}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StorageError(f"{path} is damaged; without it or a copy of it this data cannot be opened.") from None
    if not _LEAST <= header.cost <= _MOST or header.cost & (header.cost - 1) or len(header.nonce) != _NONCE:
        raise StorageError(f"{path} is damaged; without it or a copy of it this data cannot be opened.")
    return header


def write_header(root: Path, header: Header) -> None:
    """Have the home say this, in the place of what it said."""
    values = {name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(header).items()}
    about = "The key of this folder's data, wrapped by a passphrase: without this file nobody can read it, ever."
    text = json.dumps({"about": about, "format": FORMAT, "version": VERSION, **values}, indent=1)
    write_atomically(root / HEADER, text.encode())


def drop_header(root: Path) -> None:
    """Have the home be a plain one."""
    try:
        (root / HEADER).unlink()
    except OSError as error:
        raise StorageError(f"{root / HEADER} cannot be removed: {reason(error)}.") from error
    sync_folder(root)


def _cipher(passphrase: str, salt: bytes, cost: int):
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    form = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    return AESGCM(Scrypt(salt=salt, length=KEY_BYTES, n=cost, r=_BLOCKS, p=1).derive(form))


def _about(cost: int) -> bytes:
    return f"{FORMAT} {VERSION} scrypt {cost} {_BLOCKS} 1".encode()
