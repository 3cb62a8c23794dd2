"""Addresses and splits as people write them."""

import pytest

from omnidraft.errors import SettingsError
from omnidraft.settings.fields import Address, parse_address, parse_addresses, parse_split


def test_addresses_are_read_with_and_without_spaces_and_a_port():
    assert parse_addresses("10.0.0.2:50052, box.local:7") == (Address("10.0.0.2", 50052), Address("box.local", 7))
    assert parse_addresses("localhost") == (Address("localhost", 50052),)
    assert parse_addresses("") == parse_addresses(None) == parse_addresses(" , ") == ()


@pytest.mark.parametrize("text", [
    "10.0.0.2:0", "10.0.0.2:65536", "10.0.0.2:-1", "a b:5", "host:", ":50052", "http://x:80", "[::1]:5", "::1",
    "x:٥", "-x:5", "x" * 300 + ":5", "host:50052; rm -rf /",
])  # fmt: skip
def test_what_is_no_address_is_refused_in_a_sentence(text):
    with pytest.raises(SettingsError, match=r"address"):
        parse_address(text)


def test_a_worker_cannot_be_named_twice_nor_too_many():
    with pytest.raises(SettingsError, match="twice"):
        parse_addresses("a:1, b:2, a:1")
    with pytest.raises(SettingsError, match="at most 16"):
        parse_addresses(",".join(f"h{i}:1" for i in range(17)))


def test_only_this_machine_is_loopback():
    assert Address("127.0.0.1", 1).is_loopback
    assert Address("127.8.8.8", 1).is_loopback
    assert Address("localhost", 1).is_loopback
    assert not Address("0.0.0.0", 1).is_loopback
    assert not Address("192.168.1.2", 1).is_loopback
    assert not Address("localhost.example.com", 1).is_loopback


def test_splits():
    assert parse_split("1, 2,0.5") == (1.0, 2.0, 0.5)
    assert parse_split(None) == parse_split("") == ()
    for text in ("1,x", "-1,2", "0,0", "nan,1", "inf"):
        with pytest.raises(SettingsError, match="split"):
            parse_split(text)
