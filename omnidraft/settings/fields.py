"""Checked fields for settings dataclasses: what a value may be, and one line of help, said once.

A settings class declares its fields with `integer`, `number`, `switch`, `choice`, `text` or `texts`, or as other
settings classes (groups), each its own `default_factory`, and calls `check(self)` in `__post_init__`. The settings page
and the command line read the same rules through `describe`.
Knows nothing of which settings exist, of files, or of who applies them.
"""

from __future__ import annotations

import ipaddress
import math
import re
import socket
from dataclasses import dataclass, field, fields
from typing import Any

from omnidraft.errors import ModelError, SettingsError

Number = int | float


@dataclass(frozen=True, slots=True)
class Rule:
    """What one field accepts. `low` and `high` are inclusive; `also` are single values accepted besides the range.

    expert: pages show it folded, below what most people set.
    """

    kind: str  # "integer", "number", "switch", "choice", "text" or "texts"
    help: str
    low: Number = -math.inf
    high: Number = math.inf
    also: tuple[Number, ...] = ()
    choices: tuple[str, ...] = ()
    optional: bool = False
    reload: bool = False
    expert: bool = False

    @property
    def accepted(self) -> str:
        """The accepted values in words, as error messages and the help show them."""
        words = self._words()
        return f"{words}, or left empty" if self.optional else words

    def _words(self) -> str:
        if self.kind in ("integer", "number"):
            noun = "a whole number" if self.kind == "integer" else "a number"
            besides = "".join(f"{value:g} or " for value in self.also)
            return f"{besides}{noun} from {_plain(self.low)} to {_plain(self.high)}"
        if self.kind == "switch":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "text":
            return f"a text of 1 to {self.high} characters"
        return f"a list of at most {self.high} texts of 1 to {MAX_TEXT} characters"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as a page or a help text shows it. `name` is dotted inside AppSettings: "sampling.top_k"."""

    name: str
    rule: Rule
    default: Any

    @property
    def help(self) -> str:
        return self.rule.help


MAX_TEXT = 4096  # a path or a stop string longer than this is a mistake


def integer(default: int | None, low: int, high: int, help: str, **more: Any) -> Any:
    return _field(default, Rule("integer", help, low, high, optional=default is None, **more))


def number(default: float, low: float, high: float, help: str, **more: Any) -> Any:
    return _field(default, Rule("number", help, low, high, **more))


def switch(default: bool, help: str, **more: Any) -> Any:
    return _field(default, Rule("switch", help, **more))


def choice(default: str, choices: tuple[str, ...], help: str, **more: Any) -> Any:
    return _field(default, Rule("choice", help, choices=choices, **more))


def text(default: str | None, help: str, **more: Any) -> Any:
    return _field(default, Rule("text", help, high=MAX_TEXT, optional=default is None, **more))


def texts(help: str, at_most: int, default: tuple[str, ...] = (), **more: Any) -> Any:
    return _field(default, Rule("texts", help, high=at_most, **more))


def _field(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


def rules(cls: type) -> dict[str, Rule]:
    """The rules of the fields of a settings class that are no groups."""
    return {f.name: f.metadata["rule"] for f in fields(cls) if f.metadata}


def groups(cls: type) -> dict[str, Any]:
    """The settings classes that a settings class is made of."""
    return {f.name: f.default_factory for f in fields(cls) if not f.metadata}


def describe(cls: type, prefix: str = "") -> list[Setting]:
    """Every setting of a settings class, groups flattened to dotted names, in the order of declaration."""
    found: list[Setting] = []
    for f in fields(cls):
        if f.name in groups(cls):
            found += describe(groups(cls)[f.name], f"{prefix}{f.name}.")
        else:
            found.append(Setting(prefix + f.name, f.metadata["rule"], f.default))
    return found


def check(settings: Any, prefix: str = "") -> None:
    """Check every field against its rule; whole numbers become floats and lists tuples where the field wants them.

    Raises SettingsError naming the setting (behind `prefix`), the value and what is accepted.
    """
    for name, rule in rules(type(settings)).items():
        value = getattr(settings, name)
        if value is None and rule.optional:
            continue
        try:
            checked = _checked(rule, value)
        except ValueError:
            raise refusal(prefix + name, value, rule.accepted) from None
        if checked is not value:
            object.__setattr__(settings, name, checked)


def refusal(name: str, value: Any, accepted: str) -> SettingsError:
    """The error every refused setting raises, in one wording."""
    value = list(value) if isinstance(value, tuple) else value  # as it was sent
    # Python refuses to write out integers of thousands of digits.
    shown = "a huge number" if isinstance(value, int) and value.bit_length() > 1024 else repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return SettingsError(f"The setting {name} is {shown}, but must be {accepted}.")


def _checked(rule: Rule, value: Any) -> Any:
    if rule.kind in ("integer", "number"):
        return _checked_number(rule, value)
    if rule.kind == "texts":
        return _checked_texts(rule, value)
    good = {
        "switch": isinstance(value, bool),
        "choice": isinstance(value, str) and value in rule.choices,
        "text": _good_text(value),
    }
    if not good[rule.kind]:
        raise ValueError
    return value


def _checked_number(rule: Rule, value: Any) -> Number:
    types = int if rule.kind == "integer" else (int, float)
    # A bool is an int to Python; as a count or a temperature it is a mistake.
    if isinstance(value, bool) or not isinstance(value, types):
        raise ValueError
    if value not in rule.also and not rule.low <= value <= rule.high:  # as NaN is not, either
        raise ValueError
    return float(value) + 0.0 if rule.kind == "number" else value  # no -0


def _checked_texts(rule: Rule, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > rule.high or not all(map(_good_text, value)):
        raise ValueError
    return tuple(value)


def _good_text(value: Any) -> bool:
    """A storable text: UTF-8 can say it (no lone surrogates) and it holds no NUL."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Number) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


# Addresses of workers as people write them: "host:port, host:port". Knows nothing of what answers there.


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
