"""Files that only the holder of a key can read: sealed in blocks, each authenticated, in their order and to the end.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizár 2015) over AES-256-GCM, with a key per file that HKDF
derives from the given one and a random salt: no nonce is ever used twice. Knows nothing of where keys come from.
MAGIC (8 bytes), salt (32 bytes), blocks: up to 64 KiB of ciphertext and its tag (16 bytes)
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from omnidraft.errors import StorageError

MAGIC = b"ODSEAL1\n"
BLOCK = 1 << 16
KEY_BYTES = 32
_SALT, _TAG = 32, 16
DAMAGED = "is damaged, or was encrypted with another key"


def derive(key: bytes, purpose: str, salt: bytes = b"") -> bytes:
    """A key for one purpose alone: it tells nothing of `key` nor of those for other purposes."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY_BYTES, salt or None, f"omnidraft {purpose}".encode()).derive(key)


def is_sealed(start: bytes) -> bool:
    """Whether a file that begins so was written by `seal`."""
    return start[: len(MAGIC)] == MAGIC


def seal(source: BinaryIO, target: BinaryIO, key: bytes) -> None:
    """Write what `source` holds to `target`, readable with `key` alone."""
    salt = os.urandom(_SALT)
    target.write(MAGIC + salt)
    cipher, number, block = _cipher(key, salt), 0, source.read(BLOCK)
    while True:
        following = source.read(BLOCK) if len(block) == BLOCK else b""
        target.write(cipher.encrypt(_nonce(number, not following), block, MAGIC))
        if not following:
            return
        number, block = number + 1, following


def unseal(source: BinaryIO, target: BinaryIO, key: bytes) -> None:
    """The reverse. StorageError, with what was good so far written, unless all of it is as it was sealed."""
    from cryptography.exceptions import InvalidTag

    if not is_sealed(source.read(len(MAGIC))):
        raise StorageError(DAMAGED)
    cipher, number = _cipher(key, source.read(_SALT)), 0
    block = source.read(BLOCK + _TAG)
    try:
        while True:
            following = source.read(BLOCK + _TAG) if len(block) == BLOCK + _TAG else b""
            target.write(cipher.decrypt(_nonce(number, not following), block, MAGIC))
            if not following:
                return
            number, block = number + 1, following
    except (InvalidTag, ValueError):
        raise StorageError(DAMAGED) from None


def sealed_bytes(data: bytes, key: bytes) -> bytes:
    target = io.BytesIO()
    seal(io.BytesIO(data), target, key)
    return target.getvalue()


def unsealed_bytes(data: bytes, key: bytes) -> bytes:
    """StorageError if it is not whole."""
    target = io.BytesIO()
    unseal(io.BytesIO(data), target, key)
    return target.getvalue()


def _cipher(key: bytes, salt: bytes):
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(derive(key, "file", salt))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
