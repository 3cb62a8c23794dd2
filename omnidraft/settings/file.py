"""Settings on disk: one TOML file a person may read and edit, and which is never lost.

Saving keeps the file's comments and the keys this version does not know. Defaults stand in it as comments, so that a
better default in a later version reaches everyone who did not choose. A file that cannot be read is an error, never
silently replaced; `reset_settings` moves it aside first. Knows nothing of what the settings mean (config.py).
"""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import AppSettings, describe, from_dict, to_dict, value_of
from omnidraft.storage.files import move_aside, read, reason, write_atomically

MOST_BYTES, MOST_KEYS = 64 << 10, 1000
MOST_PARTS = 8  # of a key; ours have two
# A key of so many parts: parsers take time with the square of their number. Part and dot never begin alike, and what
# one has taken it does not give back, so that looking for it takes time with the length of the text.
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}")
_saving = threading.Lock()


def load_settings(path: Path) -> tuple[AppSettings, list[str]]:
    """The settings in `path` and one warning per unknown key; the defaults if there is no such file.

    Raises StorageError if the file cannot be read or is not TOML, SettingsError if it holds a refused value; both
    name the file.
    """
    text = _read(path)
    if text is None:
        return AppSettings(), []
    try:
        _check_extent(text)
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"The settings file {path} is damaged ({error}); repair it or reset the settings.") from None
    try:
        settings, warnings = from_dict(AppSettings, data)
    except SettingsError as error:
        raise SettingsError(f"In the settings file {path}: {str(error)[0].lower()}{str(error)[1:]}") from None
    return settings, [f"{path.name}: {warning}" for warning in warnings]


def _check_extent(text: str) -> None:
    """ValueError for what would take a parser seconds, however little of it there is."""
    if len(text) > MOST_BYTES or text.count("=") > MOST_KEYS:
        raise ValueError("it is much larger than settings are")
    if _DEEP.search(text):
        raise ValueError(f"it has names of more than {MOST_PARTS} parts")


def save_settings(path: Path, settings: AppSettings) -> None:
    """Write `settings` to `path` atomically. What `load_settings` refuses is left as it is, and its error raised."""
    with _saving:
        load_settings(path)
        text = _merged(_read(path), settings)
        write_atomically(path, text.encode())


def reset_settings(path: Path) -> Path | None:
    """Put the defaults in place of `path`; what was there is kept under the returned name."""
    with _saving:
        aside = move_aside(path)
        write_atomically(path, _fresh(AppSettings()).encode())
        return aside


def _read(path: Path) -> str | None:
    try:
        return read(path).decode("utf-8-sig")  # some editors put a byte order mark in front
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise StorageError(f"The settings file {path} is damaged (not UTF-8 text); reset the settings.") from None
    except OSError as error:
        raise StorageError(f"The settings file {path} cannot be read: {reason(error)}.") from error


def _merged(text: str | None, settings: AppSettings) -> str:
    if not text:
        return _fresh(settings)
    try:
        document = tomlkit.parse(text)
        _update(document, to_dict(settings), to_dict(AppSettings()))
        merged = document.as_string()
        # An unusual layout (say, tables in pieces) may come out of the merge wrong: then its comments are given up.
        if from_dict(AppSettings, tomllib.loads(merged))[0] == settings:
            return merged
    except (TOMLKitError, ValueError, SettingsError):
        pass
    return _fresh(settings)


def _update(table: MutableMapping[str, Any], values: dict[str, Any], defaults: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in table and value == defaults[name]:
            continue
        if isinstance(value, dict):
            if name not in table:
                table[name] = tomlkit.table()
            _update(table[name], value, defaults[name])
        elif value is None:
            table.pop(
                name, None
            )  # TOML has no null; an absent key is its default, which is None wherever None is accepted
        elif name not in table or table[name] != value:
            table[name] = value


def _fresh(settings: AppSettings) -> str:
    """A new file: every setting with its help above it, the ones at their default as a comment."""
    lines: list[str] = []
    section = ""
    for setting in describe(AppSettings):
        table, _, name = setting.name.rpartition(".")
        if table != section:
            section = table
            lines += ["", f"[{table}]"]
        lines.append(f"# {setting.help} Accepted: {setting.rule.accepted}.")
        value = value_of(settings, setting.name)
        mark = "# " if value == setting.default else ""
        lines.append(f"{mark}{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return "" if value is None else tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string()
