"""What a person keeps: presets (system prompt, sampling, model), prompts to insert into a message, facts to be told.

They lie in the conversations' file, so they are carried, encrypted and forgotten with it. Knows no page and no model:
a preset names its model as a conversation does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from omnidraft.chats.records import whole_text
from omnidraft.chats.schema import Eraser
from omnidraft.chats.titles import one_line
from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import SamplingSettings, from_dict, to_dict
from omnidraft.storage.database import Database

MAX_NAME = 80
MAX_TEXT = 200_000  # characters of a prompt: a long paper
MAX_FACT = 300
MAX_ITEMS = 500
FORMAT = "omnidraft-library"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Preset:
    """What a conversation is set to. `sampling`, `target` None: left as they are where it is applied."""

    name: str
    system: str = ""
    sampling: SamplingSettings | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text one writes more than once."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that every model shall be told of; its name is all there is."""

    name: str


Item = Preset | Prompt | Fact
KINDS: dict[str, type[Item]] = {"preset": Preset, "prompt": Prompt, "fact": Fact}


class Library:
    """The named things in a store's file. `eraser` makes deleted ones leave it; see `ChatStore.delete`."""

    def __init__(self, db: Database, eraser: Eraser) -> None:
        self._db, self._eraser = db, eraser

    def presets(self) -> list[Preset]:
        """By name. One whose values this version refuses is passed over, and stays in the file."""
        return [item for item in self._all("preset") if isinstance(item, Preset)]

    def prompts(self) -> list[Prompt]:
        return [item for item in self._all("prompt") if isinstance(item, Prompt)]

    def facts(self) -> list[str]:
        """In the order in which they were kept."""
        return [item.name for item in self._all("fact")]

    def get(self, kind: str, name: str) -> Item:
        """StorageError if there is none of that name; upper and lower case are alike."""
        found = next((item for item in self._all(kind) if item.name.casefold() == name.casefold()), None)
        if found is None:
            raise StorageError(f"There is no {kind} named {name[:MAX_NAME]} any more.")
        return found

    def save(self, item: Item) -> bool:
        """Keep it, in place of one with its name; True if there was one."""
        item = checked(item)
        kind = kind_of(item)
        with self._db.changing():
            known = {one.name.casefold(): one.name for one in self._all(kind)}
            before = known.get(item.name.casefold())
            if before is None and len(known) >= MAX_ITEMS:
                raise StorageError(f"There are {MAX_ITEMS} {kind}s already; delete one first.")
            self._remove(kind, before)
            self._db.run("INSERT OR REPLACE INTO library VALUES (?, ?, ?)", (kind, item.name, _body(item)))
        return before is not None

    def rename(self, kind: str, old: str, new: str) -> None:
        """StorageError if the name is taken or none is given."""
        with self._db.changing():
            item = self.get(kind, old)
            renamed = checked(replace(item, name=new))
            taken = {one.name.casefold() for one in self._all(kind)} - {item.name.casefold()}
            if renamed.name.casefold() in taken:
                raise StorageError(f"There is a {kind} named {renamed.name} already.")
            self._remove(kind, item.name)
            self._db.run("INSERT OR REPLACE INTO library VALUES (?, ?, ?)", (kind, renamed.name, _body(renamed)))

    def delete(self, kind: str, name: str, later: bool = False) -> None:
        """Nothing of it is left in the file; `later`: see `ChatStore.delete`."""
        self._eraser.ready(later)
        with self._db.using():
            with self._db.changing():
                self._eraser.note()
                self._remove(kind, self.get(kind, name).name)
            self._eraser.erase(later)

    def export(self) -> str:
        """Everything as JSON text."""
        kept = {f"{kind}s": [_plain(item) for item in self._all(kind)] for kind in KINDS}
        return json.dumps({"format": FORMAT, "version": VERSION, **kept}, ensure_ascii=False, indent=1)

    def import_text(self, text: str | bytes) -> dict[str, int]:
        """Add what an exported text holds; how many of each kind. A name that is taken gets a number, but for facts.

        StorageError says what is wrong with the file; nothing is stored then.
        """
        items = read_library(text)
        with self._db.changing():
            for item in items:
                taken = {one.name.casefold() for one in self._all(kind_of(item))}
                self.save(item if isinstance(item, Fact) else replace(item, name=_free(item.name, taken)))
        return {kind: sum(isinstance(item, cls) for item in items) for kind, cls in KINDS.items()}

    def _all(self, kind: str) -> list[Item]:
        """Facts in the order in which they were kept, all else by name."""
        rows = self._db.all("SELECT name, body FROM library WHERE kind = ? ORDER BY rowid", (kind,))
        found = [item for name, body in rows if (item := _stored(kind, name, body)) is not None]
        return found if kind == "fact" else sorted(found, key=lambda item: item.name.casefold())

    def _remove(self, kind: str, name: str | None) -> None:
        self._db.run("DELETE FROM library WHERE kind = ? AND name = ?", (kind, name))


def kind_of(item: Item) -> str:
    return next(kind for kind, cls in KINDS.items() if isinstance(item, cls))


def checked(item: Item) -> Item:
    """With a name on one line; StorageError if there is none, or too much of anything."""
    kind = kind_of(item)
    name = one_line(whole_text(item.name))
    if isinstance(item, Fact):
        if not 0 < len(name) <= MAX_FACT:
            raise StorageError(f"A fact has 1 to {MAX_FACT} characters.")
        return Fact(name)
    if not name:
        raise StorageError(f"Give the {kind} a name.")
    if len(name) > MAX_NAME:
        raise StorageError(f"The name of a {kind} has at most {MAX_NAME} characters.")
    text = item.system if isinstance(item, Preset) else item.text
    if isinstance(item, Prompt) and not text.strip():
        raise StorageError("Write the prompt into the message box first.")
    if len(text) > MAX_TEXT:
        raise StorageError(f"The {kind} {name} is longer than {MAX_TEXT:,} characters.")
    if isinstance(item, Preset):
        return replace(item, name=name, system=whole_text(text))
    return Prompt(name, whole_text(text))


def read_library(text: str | bytes) -> list[Item]:
    """The items of an exported text. StorageError says what is wrong with it."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise StorageError("The file cannot be imported: it is not JSON in UTF-8.") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT or whole.get("version") != VERSION:
        raise StorageError("The file cannot be imported: it is no export of presets and prompts.")
    found: list[Item] = []
    for kind in KINDS:
        given = whole.get(f"{kind}s", [])
        if not isinstance(given, list) or len(given) > MAX_ITEMS:
            raise StorageError(f"The file cannot be imported: its list of {kind}s is damaged or too long.")
        found += [_item(kind, one, f"{kind} {number}") for number, one in enumerate(given, 1)]
    return found


def _item(kind: str, given: Any, where: str) -> Item:
    try:
        if not isinstance(given, Mapping):
            raise TypeError
        return checked(_made(kind, given["name"], given))
    except (KeyError, TypeError, SettingsError, RecursionError):
        raise StorageError(f"The file cannot be imported: {where} has a value missing or refused.") from None


def _made(kind: str, name: Any, given: Mapping[str, Any]) -> Item:
    if kind == "fact" and isinstance(name, str):
        return Fact(name)
    texts = [name, given["text"] if kind == "prompt" else given.get("system", "")]
    target, sampling = given.get("target"), given.get("sampling")
    if not all(isinstance(text, str) for text in [*texts, target or ""]):
        raise TypeError
    if kind == "prompt":
        return Prompt(name, texts[1])
    if sampling is not None and not isinstance(sampling, Mapping):
        raise TypeError
    chosen = None if sampling is None else from_dict(SamplingSettings, sampling)[0]
    return Preset(name, texts[1], chosen, None if target is None else whole_text(target))


def _stored(kind: str, name: str, body: str) -> Item | None:
    try:
        item = checked(_made(kind, name, json.loads(body)))
    except (KeyError, TypeError, ValueError, RecursionError, SettingsError, StorageError):
        return None
    return item if item.name == name else None


def _plain(item: Item) -> dict[str, Any]:
    values = {field.name: getattr(item, field.name) for field in fields(item)}
    return {name: to_dict(value) if isinstance(value, SamplingSettings) else value for name, value in values.items()}


def _body(item: Item) -> str:
    return json.dumps({key: value for key, value in _plain(item).items() if key != "name"}, ensure_ascii=False)


def _free(name: str, taken: Iterable[str]) -> str:
    """`name`, or with the first number behind it that nobody has."""
    tries = (f"{name[: MAX_NAME - 6]} ({number})" for number in range(2, MAX_ITEMS + 3))
    return next(one for one in [name, *tries] if one.casefold() not in taken)
