"""Signing in under attack: wrong passwords wait, few hashes run at a time, and the right one is let in."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnidraft.errors import SettingsError, StorageError
from omnidraft.profiles import accounts
from omnidraft.profiles.accounts import AT_ONCE, LONGEST, TRIES, TRIES_OF_ADDRESS, Accounts, TooManyTries, add_account

RIGHT = "correct horse"
HERS, THEIRS = "192.168.1.2", "192.168.1.66"


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only where a test says so."""
    now = [1000.0]
    monkeypatch.setattr(accounts.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def known(tmp_path, monkeypatch) -> Accounts:
    monkeypatch.setattr(accounts, "_COST", {"n": 16, "r": 8, "p": 1})  # what a hash costs is not looked at here
    add_account(tmp_path / "accounts", "ada", RIGHT)
    return Accounts(tmp_path / "accounts")


def attack(known: Accounts, tries: int, name: str = "ada", address: str = THEIRS) -> int:
    """Wrong passwords; how many were not even looked at."""
    refused = 0
    for number in range(tries):
        try:
            assert not known.verify(name.format(number), "wrong horse", address)
        except TooManyTries as error:
            refused += 1 <= error.seconds <= LONGEST
    return refused


def test_wrong_passwords_wait_ever_longer_but_not_for_long(known, clock):
    assert attack(known, TRIES) == 0
    for seconds in (1, 2, 4, 8, 16, 30, 30, 30):
        assert attack(known, 3) == 3, "while it waits nothing is looked at"
        clock[0] += seconds - 0.5
        assert attack(known, 1) == 1
        clock[0] += 1
        assert attack(known, 1) == 0


def test_nobody_is_locked_out_by_somebody_elsewhere(known, clock):
    attack(known, 1000)
    assert known.verify("ada", RIGHT, HERS)


def test_a_right_password_that_was_right_before_is_let_in_from_the_same_place(known, clock):
    """Behind one proxy everybody has one address."""
    assert known.verify("ada", RIGHT, HERS)
    attack(known, 1000, address=HERS)
    clock[0] += 0.2
    assert known.verify("ada", RIGHT, HERS)


def test_while_a_name_waits_the_right_password_cannot_be_guessed_quickly(known, clock):
    assert known.verify("ada", RIGHT, HERS)
    attack(known, TRIES, address=HERS)
    clock[0] += 0.2
    assert attack(known, 1, address=HERS) == 1  # this one was looked at
    with pytest.raises(TooManyTries):
        known.verify("ada", RIGHT, HERS)


def test_an_address_that_tries_many_names_waits_as_a_whole(known, clock):
    assert known.verify("ada", RIGHT, THEIRS)
    assert attack(known, TRIES_OF_ADDRESS, "someone{}") == 0
    assert attack(known, 100, "another{}") == 100
    known._right.clear()
    assert known.verify("ada", RIGHT, THEIRS), "who signed in from there may"


def test_few_passwords_are_hashed_at_a_time(known, monkeypatch):
    running, most, guard = [0], [0], threading.Lock()

    def slow(password: str, salt: bytes) -> bytes:
        with guard:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with guard:
            running[0] -= 1
        return b"nothing"

    monkeypatch.setattr(accounts, "_hash", slow)

    def one(number: int) -> bool:
        try:
            return known.verify(f"name{number}", "wrong horse", f"10.0.0.{number % 50}")
        except TooManyTries:
            return True

    with ThreadPoolExecutor(100) as pool:
        refused = sum(pool.map(one, range(200)))
    assert 1 <= most[0] <= AT_ONCE
    assert refused, "the others were told to come again"


def test_a_password_of_megabytes_is_not_hashed(known, monkeypatch):
    monkeypatch.setattr(accounts, "_hash", lambda *given: pytest.fail("it was hashed"))
    assert not known.verify("ada", "x" * 1_000_000)


def test_two_accounts_do_not_differ_by_case_alone(known, tmp_path):
    with pytest.raises(SettingsError, match="There is an account named ada already; Ada is too"):
        add_account(tmp_path / "accounts", "Ada", RIGHT)
    add_account(tmp_path / "accounts", "ada", "another horse")
    assert Accounts(tmp_path / "accounts").verify("ada", "another horse")


def test_accounts_are_hashed_and_checked(known, tmp_path):
    assert RIGHT not in (tmp_path / "accounts").read_text()
    assert known.verify("ada", RIGHT)
    assert not known.verify("ada", "correct horsf")
    assert not known.verify("nobody", RIGHT)
    token = known.sign_in("ada")
    assert known.user(token) == "ada"
    known.sign_out(token)
    assert known.user(token) is None
    assert known.user(None) is None


def test_bad_accounts_are_refused_in_a_sentence(tmp_path):
    for name, password, told in (("ada", "short", "at least 8"), ("../ada", "long enough", "cannot be named")):
        with pytest.raises(SettingsError, match=told):
            add_account(tmp_path / "a", name, password)
    (tmp_path / "b").write_text("ada:plain\n")
    with pytest.raises(StorageError, match="Line 1"):
        Accounts(tmp_path / "b")
