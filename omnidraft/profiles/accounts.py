"""Accounts of `--auth-file`: names with scrypt hashes in a file, who is signed in, and waits after wrong passwords.

Knows nothing of requests and cookies; the gate in front of the pages does.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import threading
import time
from pathlib import Path

from omnidraft.errors import SettingsError, StorageError
from omnidraft.files import write_atomically
from omnidraft.paths import profile_name

DAYS = 30
_COST = {"n": 2**14, "r": 8, "p": 1}


class Accounts:
    """Names and password hashes in a text file, one `name:salt:hash` a line (base64, scrypt)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hashes = _read(path)
        self._sessions: dict[str, tuple[str, float]] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def verify(self, name: str, password: str) -> bool:
        """Whether the password is right. Unknown names take as long as known ones; failures make the next wait."""
        if self._locked(name):
            return False
        salt, wanted = self._hashes.get(name, (b"\0" * 16, b""))
        right = hmac.compare_digest(_hash(password, salt), wanted)
        with self._lock:
            if right:
                self._failures.pop(name, None)
            else:
                count = self._failures.get(name, (0, 0.0))[0] + 1
                self._failures[name] = (count, time.monotonic() + min(2 ** (count - 5), 300) if count >= 5 else 0.0)
        return right

    def sign_in(self, name: str) -> str:
        """A new session's token."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[token] = (name, time.time() + DAYS * 86400)
        return token

    def user(self, token: str | None) -> str | None:
        with self._lock:
            name, until = self._sessions.get(token or "", ("", 0.0))
        return name if until > time.time() else None

    def sign_out(self, token: str | None) -> None:
        with self._lock:
            self._sessions.pop(token or "", None)

    def _locked(self, name: str) -> bool:
        with self._lock:
            return self._failures.get(name, (0, 0.0))[1] > time.monotonic()


def add_account(path: Path, name: str, password: str) -> None:
    """Add or change one account. SettingsError for a refused name or a password shorter than 8 characters."""
    name = profile_name(name)
    if len(password) < 8:
        raise SettingsError("A password needs at least 8 characters.")
    hashes = _read(path) if path.exists() else {}
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
