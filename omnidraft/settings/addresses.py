"""Addresses of workers as people write them: "host:port, host:port". Knows nothing of what answers there."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from omnidraft.errors import ModelError, SettingsError

MOST = 16  # llama.cpp takes no more
DEFAULT_PORT = 50052
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def resolved(self) -> str:
        """The host as four numbers, which is all that llama.cpp takes; ModelError if the name stands for nothing."""
        try:
            return str(socket.getaddrinfo(self.host, self.port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        except (OSError, UnicodeError):
            raise ModelError(f"The name of the worker at {self} leads nowhere; check how it is written.") from None

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """SettingsError in one sentence for what is no address."""
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = text.strip(), str(DEFAULT_PORT)
    if ":" in host or host.startswith("["):
        raise SettingsError(f"{text.strip()[:80]} is an IPv6 address; llama.cpp reaches workers by IPv4 only.")
    if (
        not _HOST.fullmatch(host)
        or not (port.isascii() and port.isdecimal())
        or len(port) > 5
        or not 0 < int(port) < 65536
    ):
        raise SettingsError(f"{text.strip()[:80]!r} is not the address of a worker, such as 192.168.1.20:50052.")
    return Address(host, int(port))


def parse_addresses(text: str | None) -> tuple[Address, ...]:
    """All addresses of a list with commas; none for an empty one. SettingsError for what cannot be one."""
    found = tuple(parse_address(part) for part in (text or "").split(",") if part.strip())
    if len(found) > MOST:
        raise SettingsError(f"{len(found)} workers are named, but at most {MOST} can be used.")
    if len(set(found)) < len(found):
        twice = next(address for i, address in enumerate(found) if address in found[:i])
        raise SettingsError(f"The worker {twice} is named twice.")
    return found


def parse_split(text: str | None) -> tuple[float, ...]:
    """Shares with commas between them, "1,2,2"; none for an empty text. SettingsError for anything else."""
    try:
        shares = tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        shares = (-1.0,)
    if any(not 0 <= share < 1e6 for share in shares) or (shares and not sum(shares) > 0):
        raise SettingsError(f"{(text or '')[:80]!r} is not a split, such as 1,2,2: a share for each machine.")
    return shares
