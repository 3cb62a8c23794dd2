"""What is sealed is read with its key alone, and only whole."""

from __future__ import annotations

import pytest

from omnidraft.errors import StorageError
from omnidraft.storage.sealed import BLOCK, MAGIC, is_sealed, sealed_bytes, unsealed_bytes

KEY, OTHER = bytes(range(32)), bytes(32)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_what_was_sealed_comes_back(size):
    data = bytes(i % 251 for i in range(size))
    sealed = sealed_bytes(data, KEY)
    assert is_sealed(sealed)
    assert unsealed_bytes(sealed, KEY) == data
    assert size < 9 or data[:9] not in sealed


def damages(sealed: bytes):
    block = BLOCK + 16
    head, first, second, last = sealed[:40], *(sealed[40 + i * block : 40 + (i + 1) * block] for i in range(3))
    yield head + second + first + last  # blocks exchanged
    yield head + first + second  # the end is missing
    yield head + first + last
    yield sealed[:-1]
    yield sealed + b"\0"
    yield sealed + last
    yield b""
    yield b"plain text"
    yield head[:20]
    for at in (3, 20, 50, len(sealed) - 1):
        yield sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]


def test_what_is_not_whole_is_refused():
    sealed = sealed_bytes(bytes(2 * BLOCK + 100), KEY)
    assert sealed[: len(MAGIC)] == MAGIC
    for damaged in damages(sealed):
        with pytest.raises(StorageError, match="damaged"):
            unsealed_bytes(damaged, KEY)
