"""What must be true of a data home whenever a program that worked with it was killed; and what victims have said."""

import json
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from omnidraft.chats import ChatStore
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import VERSION_NAME
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.settings.file import load_settings
from omnidraft.storage.paths import DataHome, ProfilePaths

VOCABULARY = "a vocabulary of a target"  # that versions are published for


def learned_in(home: DataHome) -> Adapters:
    return Adapters(home.profile().adapters, home.root.with_name("merged"))


@dataclass
class Said:
    """What victims have shown as done: answers by message, chats forgotten, settings, and what they were at."""

    shown: dict[str, tuple[str, str]] = field(default_factory=dict)  # message: chat, text
    imported: dict[str, int] = field(default_factory=dict)
    forgetting: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    settings: dict[str, set] = field(default_factory=dict)
    published: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def hear(self, line: bytes) -> None:
        match json.loads(line):
            case {"shown": message, "chat": chat, "text": text, "error": error}:
                self.shown[message] = (chat, text)
                if error:
                    self.broken.append(error)
            case {"replacing": message}:
                del self.shown[message]  # it grows in the same message
            case {"imported": chat, "messages": count}:
                self.imported[chat] = count
            case {"forgetting": chat}:
                self.forgetting.add(chat)
            case {"forgotten": chat}:
                self.forgotten.add(chat)
            case {"setting": name, "was": before, "to": value}:
                self.settings.setdefault(name, {before}).add(value)
            case {"set": name, "to": value}:
                self.settings[name] = {value}
            case {"published": name}:
                self.published.append(int(name[1:]))
            case {"refused": why, "act": act}:
                self.refused.append(f"{act}: {why}")
            case {"broken": why}:
                self.broken.append(why)


def check(home: DataHome, said: Said) -> None:
    for profile in ("default", "terminal"):
        check_profile(home.profile(profile))
    check_answers(home.profile().chats, said)
    settings, warnings = load_settings(home.profile().settings)
    assert warnings == []
    for name, values in said.settings.items():
        group, field_name = name.split(".")
        assert getattr(getattr(settings, group), field_name) in values, name
    check_private(home.root)
    assert said.broken == []


def check_profile(paths: ProfilePaths) -> None:
    for database in sorted(paths.root.glob("*.sqlite")):
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], database
    for folder in paths.adapters.glob("*/*"):
        store = AdapterStore(folder)
        whole = {version.name for version in store.versions()}
        assert {path.name for path in folder.iterdir() if VERSION_NAME.fullmatch(path.name)} <= whole, folder
        assert store.pointer.version is None or store.pointer.version in whole
    if paths.replay.exists():
        with ReplayStore(paths.replay) as replay:
            assert all(replay.get(ordinal).targets is not None for ordinal in replay.answers)


def check_answers(chats: Path, said: Said) -> None:
    """Nothing that was shown as complete is missing or changed, nothing that was forgotten is there."""
    if not chats.exists():
        assert not said.shown
        return
    with ChatStore(chats) as store:
        kept = {chat.id for chat in store.conversations()}
        for message, (chat, text) in said.shown.items():
            if chat in said.forgotten or (chat in said.forgetting and chat not in kept):
                continue
            found = store.message(message)
            assert found.content == text
            assert not found.meta.get("partial")
        for chat, count in said.imported.items():
            if chat not in said.forgetting:
                assert len(store.path(chat)) >= count
        assert not kept & said.forgotten


def check_private(root: Path) -> None:
    """Nobody but the owner may read or write anything."""
    for path in (root, *root.rglob("*")):
        mode = path.lstat().st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        assert stat.S_ISLNK(mode) or stat.S_IMODE(mode) & ~wanted == 0, (path, oct(mode))
