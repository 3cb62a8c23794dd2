"""Accounts of `--auth-file`: names with scrypt hashes in a file, and who is signed in.

Knows nothing of requests and cookies; the gate in front of the
pages does.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import os
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.errors import OmniDraftError, SettingsError, StorageError
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import MAX_NAME, profile_name

# How often and by how many a password may be tried: waits after wrong ones, and few hashes at a time. A wait holds for
# one name from one address, so that nobody who knows a name can lock out the person who has it; an address that tries
# many names waits as a whole, but for the names that have signed in from there. Knows no passwords.


TRIES = 5  # wrong passwords before the first wait
TRIES_OF_ADDRESS = 20  # the same, whatever the names
LONGEST = 30.0  # seconds
FORGOTTEN = 900.0  # seconds after which nothing is held against anybody
REMEMBERED = 10_000  # failures kept at most: addresses and names are the client's to choose
AT_ONCE = 2  # hashes; each takes 16 MB
WAITING = 12  # for their turn
WAITING_OF_ADDRESS = 3


class TooManyTries(OmniDraftError):
    """Not even looked at; `seconds` says when to try again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"Too many tries to sign in; wait {self.seconds} seconds and try again.")


class Throttle:
    """Wrong passwords, by address and name and by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str | None], tuple[int, float]] = OrderedDict()  # count, time of last
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who has signed in from where

    def wait(self, address: str, name: str) -> float:
        """Seconds until a password may be tried; 0 for now."""
        with self._lock:
            own = self._left((address, name), TRIES)
            known = (address, name) in self._known
            return own if known else max(own, self._left((address, None), TRIES_OF_ADDRESS))

    def wrong(self, address: str, name: str) -> None:
        with self._lock:
            for key in ((address, name), (address, None)):
                count, last = self._failures.pop(key, (0, 0.0))
                if time.monotonic() - last > FORGOTTEN:
                    count = 0
                self._failures[key] = (count + 1, time.monotonic())
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def right(self, address: str, name: str) -> None:
        with self._lock:
            self._failures.pop((address, name), None)
            self._known[address, name] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _left(self, key: tuple[str, str | None], tries: int) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        if count < tries:
            return 0.0
        return max(0.0, last + min(2.0 ** min(count - tries, 10), LONGEST) - time.monotonic())


class Lanes:
    """Lets few through at once and few wait, of each address fewer, so that many tries of one leave room for others."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()

    @contextmanager
    def turn(self, address: str) -> Iterator[None]:
        """TooManyTries if there is no room to wait."""
        with self._lock:
            if self._inside[address] >= WAITING_OF_ADDRESS or self._inside.total() >= WAITING:
                raise TooManyTries(1)
            self._inside[address] += 1
        try:
            with self._free:
                yield
        finally:
            with self._lock:
                self._inside[address] -= 1
                if not self._inside[address]:
                    del self._inside[address]


DAYS = 30
LONGEST_PASSWORD = 1024
LOOKS = 0.1  # seconds between looks at a password that was right before, while its name waits
_COST = {"n": 2**14, "r": 8, "p": 1}


class Accounts:
    """Names and password hashes in a text file, one `name:salt:hash` a line (base64, scrypt)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hashes = _read(path)
        self._sessions: dict[str, tuple[str, float]] = {}
        self._throttle = Throttle()
        self._lanes = Lanes()
        self._secret = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}  # name -> mark of the password that was right last; see `_seen`
        self._looked: dict[str, float] = {}
        self._lock = threading.Lock()

    def verify(self, name: str, password: str, address: str = "") -> bool:
        """Whether the password is right. Unknown names take as long as known ones. address: who asks.

        TooManyTries if it was not looked at. One that was right before is recognised without hashing, which programs
        that send it with every request need, and also where somebody else has tried wrong ones.
        """
        if len(name) > MAX_NAME or len(password) > LONGEST_PASSWORD:
            return False
        wait = self._throttle.wait(address, name)
        if self._seen(name, password, waiting=wait > 0):
            return True
        if wait:
            raise TooManyTries(wait)
        with self._lanes.turn(address):
            if wait := self._throttle.wait(address, name):  # others were wrong meanwhile
                raise TooManyTries(wait)
            salt, wanted = self._hashes.get(name, (b"\0" * 16, b""))
            right = hmac.compare_digest(_hash(password, salt), wanted)
            (self._throttle.right if right else self._throttle.wrong)(address, name)
        if right:
            with self._lock:
                self._right[name] = self._mark(name, password)
        return right

    def _seen(self, name: str, password: str, waiting: bool) -> bool:
        """Whether this password was right before. While its name waits it is looked at only now and then: enough for
        the one who has it, too seldom for guessing."""
        with self._lock:
            known = self._right.get(name)
            if known is None:
                return False
            if waiting:
                if time.monotonic() - self._looked.get(name, 0.0) < LOOKS:
                    return False
                self._looked[name] = time.monotonic()
        return hmac.compare_digest(known, self._mark(name, password))

    def _mark(self, name: str, password: str) -> bytes:
        """Stands for a password in memory; means nothing without this process's secret."""
        return hmac.digest(self._secret, f"{name}\0{password}".encode("utf-8", "surrogatepass"), "sha256")

    def sign_in(self, name: str) -> str:
        """A new session's token."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions = {token: kept for token, kept in self._sessions.items() if kept[1] > time.monotonic()}
            self._sessions[token] = (name, time.monotonic() + DAYS * 86400)
        return token

    def user(self, token: str | None) -> str | None:
        with self._lock:
            name, until = self._sessions.get(token or "", ("", 0.0))
        return name if until > time.monotonic() else None

    def sign_out(self, token: str | None) -> None:
        with self._lock:
            self._sessions.pop(token or "", None)


def add_account(path: Path, name: str, password: str) -> None:
    """Add or change one account. SettingsError for a refused name or a password shorter than 8 characters."""
    name = profile_name(name)
    if len(password) < 8:
        raise SettingsError("A password needs at least 8 characters.")
    hashes = _read(path) if path.exists() else {}
    if like := next((n for n in hashes if n != name and n.casefold() == name.casefold()), None):
        raise SettingsError(f"There is an account named {like} already; {name} is too like it.")
    salt = os.urandom(16)
    hashes[name] = (salt, _hash(password, salt))
    lines = [f"{n}:{_text(s)}:{_text(h)}\n" for n, (s, h) in sorted(hashes.items())]
    write_atomically(path, "".join(lines).encode())


def _read(path: Path) -> dict[str, tuple[bytes, bytes]]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"The file of accounts {path} cannot be read: {error}.") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, salt, digest = line.split(":")
            found[profile_name(name)] = (base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
        except ValueError:
            raise StorageError(
                f"Line {number} of {path} is not `name:salt:hash`; add accounts with --add-user."
            ) from None
    return found


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, maxmem=64 << 20, **_COST)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
