"""The file that names programs whose functions a model may call: MCP servers, in the form other programs use.

`mcp/PROFILE.json` in the data home. Its owner writes it by hand and this program never does: what it names is run with
its owner's rights. Therefore it lies outside the profiles, whose folders are copied and sealed, and is used only if
nobody else can write it. Starts nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingsError
from omnidraft.storage.files import is_mine, reason

MAX_FILE = 256_000  # bytes
MAX_PROGRAMS = 16
BETWEEN = "__"  # a server's name and its function's; names of servers hold none, so that each is told from the other
_SERVER_NAME = re.compile(r"(?=.{1,32}\Z)[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")


@dataclass(frozen=True, slots=True)
class Program:
    """A server: what is run, and with which additions to the few variables of the environment that it gets."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: str | None  # where it runs; None: its owner's home


def programs_in(file: Path) -> tuple[list[Program], list[str]]:
    """What the file names, and a sentence for what of it cannot be used. Nothing where there is no file."""
    try:
        entries = _entries(file)
    except SettingsError as error:
        return [], [f"mcp/{file.name} is not used: {error}"]
    found, told = [], []
    for name, entry in entries.items():
        if isinstance(entry, dict) and entry.get("disabled") is True:
            continue
        try:
            found.append(_program(name, entry))
        except SettingsError as error:
            told.append(f"The server {name[:40]!r} in mcp/{file.name} is not used: {error}")
    if len(found) > MAX_PROGRAMS:
        told.append(f"mcp/{file.name} names more than {MAX_PROGRAMS} servers; the others are not used.")
    return found[:MAX_PROGRAMS], told


def _entries(file: Path) -> dict[str, Any]:
    try:
        if not file.exists():
            return {}
        if not (is_mine(file) and is_mine(file.parent)):
            raise SettingsError("others may write it or its folder; take that right from them (chmod go-w).")
        text = file.read_bytes()[: MAX_FILE + 1]
    except OSError as error:
        raise SettingsError(f"{reason(error)}.") from None
    if len(text) > MAX_FILE:
        raise SettingsError(f"it is longer than {MAX_FILE:,} bytes.")
    try:
        given = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SettingsError(f"it is not JSON{where}.") from None
    entries = given.get("mcpServers") if isinstance(given, dict) else None
    if not isinstance(entries, dict):
        raise SettingsError('it must be an object with "mcpServers", an object of servers by name.')
    return entries


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: of two servers of one name nobody knows which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingsError(f"it names {twice[:40]!r} twice in one object.")
    return found


def _program(name: str, entry: Any) -> Program:
    if not _SERVER_NAME.fullmatch(name):
        raise SettingsError("a name is 1 to 32 letters, digits, - and single _ between them.")
    if not isinstance(entry, dict):
        raise SettingsError("it must be an object.")
    command, arguments = entry.get("command"), entry.get("args", [])
    environment, folder = entry.get("env", {}), entry.get("cwd")
    if not isinstance(command, str) or not command:
        raise SettingsError('it needs "command", a program to start; servers elsewhere ("url") are not asked.')
    if not isinstance(arguments, list) or not isinstance(environment, dict):
        raise SettingsError('"args" must be a list, and "env" an object.')
    texts = [command, *arguments, *environment, *environment.values(), folder or ""]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        raise SettingsError('"command", "args", "env" and "cwd" hold texts alone.')
    return Program(name, command, tuple(arguments), tuple(environment.items()), folder)
