"""The wrapped key: wrong passphrases, other ones, damaged and planted headers."""

from __future__ import annotations

import json

import pytest

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.encryption.header import HEADER, read_header, wrap, write_header
from tests.storage.encryption.homes import PASSPHRASE, QUICK

KEY = bytes(range(32))


def test_the_passphrase_gives_the_key_and_another_gives_a_sentence():
    header = wrap(KEY, PASSPHRASE, QUICK)
    assert header.key(PASSPHRASE) == KEY
    for wrong in ("", "correct horse batterY", PASSPHRASE + " "):
        with pytest.raises(SettingsError, match="not the passphrase"):
            header.key(wrong)


def test_a_letter_typed_in_two_ways_is_the_same():
    assert wrap(KEY, "caf\u00e9 am Eck", QUICK).key("cafe\u0301 am Eck") == KEY


def test_short_ones_are_refused():
    with pytest.raises(SettingsError, match="at least 8 characters"):
        wrap(KEY, "1234567", QUICK)


def test_a_header_comes_back_and_holds_neither_key_nor_passphrase(tmp_path):
    assert read_header(tmp_path) is None
    header = wrap(KEY, PASSPHRASE, QUICK)
    write_header(tmp_path, header)
    assert read_header(tmp_path) == header
    text = (tmp_path / HEADER).read_text()
    assert KEY.hex() not in text
    assert PASSPHRASE not in text
    assert (tmp_path / HEADER).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("change", [
    {"cost": 1 << 40}, {"cost": 1000}, {"cost": "many"}, {"nonce": "00"}, {"wrapped": "no hex"}, {"format": "other"},
    {"salt": None}, {"step": "swapping"},
])  # fmt: skip
def test_a_damaged_header_is_refused_before_it_costs_anything(tmp_path, change):
    write_header(tmp_path, wrap(KEY, PASSPHRASE, QUICK))
    values = json.loads((tmp_path / HEADER).read_text()) | change
    (tmp_path / HEADER).write_text(json.dumps(values))
    with pytest.raises(StorageError, match=r"damaged|another version|an earlier version"):
        read_header(tmp_path)
