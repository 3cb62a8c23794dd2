"""`profile`: one person's settings, conversations and what was learned from them: listed, and forgotten."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from omnidraft.chats.recovery import recover
from omnidraft.cli.report import add_action
from omnidraft.errors import SettingsError
from omnidraft.format import size
from omnidraft.profiles.folders import describe_profile, existing, list_profiles, profile_size, refuse_in_use
from omnidraft.profiles.forget import Source, find_source, forget_chat, forget_everything, list_sources
from omnidraft.storage.paths import DEFAULT_PROFILE, DataHome, find_data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "list the profiles", _list)
    sub = _action(actions, "show", "where a profile's parts live and how large they are", _show)
    sub.add_argument("name", nargs="?", default=DEFAULT_PROFILE)
    sub.add_argument(
        "--chats",
        action="store_true",
        help="list what can be forgotten instead: conversations and chats on the terminal",
    )
    sub = _action(actions, "recover", "read what can be read of damaged conversations into a new file", _recover)
    sub.add_argument("name", nargs="?", default=DEFAULT_PROFILE)
    sub = _action(actions, "forget", "remove conversations and everything learned from them", _forget)
    sub.add_argument("name", nargs="?", default=DEFAULT_PROFILE)
    what = sub.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--chat",
        metavar="ID",
        help="one conversation or chat on the terminal, as `show --chats` lists them; the id's beginning will do",
    )
    what.add_argument("--everything", action="store_true", help="all of the profile but its settings")
    sub.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    return args.act(args, find_data_home(args.data_dir))


def _action(actions: Any, name: str, text: str, act: Callable) -> argparse.ArgumentParser:
    sub = add_action(actions, name, text, act)
    sub.add_argument("--json", action="store_true", help="print JSON")
    return sub


def _list(args: argparse.Namespace, home: DataHome) -> int:
    for profile in list_profiles(home):
        taken = profile_size(profile)
        about = {"name": profile.name, "path": str(profile.root), "bytes": taken}
        print(json.dumps(about) if args.json else f"{profile.name:24} {size(taken):>10}  {profile.root}")
    return 0


def _show(args: argparse.Namespace, home: DataHome) -> int:
    profile = existing(home, args.name)
    if args.chats:
        for source in list_sources(profile):
            print(json.dumps(dataclasses.asdict(source)) if args.json else _line(source))
        return 0
    for part in describe_profile(profile):
        about = {"name": part.name, "path": str(part.path), "what": part.what, "bytes": part.bytes}
        words = f"{part.name:9} {size(part.bytes):>10}  {part.what}\n{'':22}{part.path}"
        print(json.dumps(about) if args.json else words)
    return 0


def _recover(args: argparse.Namespace, home: DataHome) -> int:
    profile = existing(home, args.name)
    refuse_in_use(profile)
    return _say(args, told := recover(profile.chats), name=profile.name, told=told)


def _forget(args: argparse.Namespace, home: DataHome) -> int:
    name = existing(home, args.name).name
    if args.everything:
        _confirm(args, f"This removes everything of the profile {name} but its settings.", "forget everything")
        gone = forget_everything(home, name)
        rest = " Its settings were kept."
    else:
        chat = find_source(home.profile(name, create=False), args.chat)
        called = f'"{chat.title}"' if chat.kept else chat.id
        _confirm(args, f"This removes {called} and everything learned from it.", "forget")
        gone = forget_chat(home, name, chat.id)
        rest = ""
    words = gone.sentence() + rest
    return _say(args, words, name=name, **dataclasses.asdict(gone))


def _confirm(args: argparse.Namespace, warning: str, word: str) -> None:
    """Have `word` typed, unless --yes; SettingsError if something else is, or nothing."""
    if args.yes:
        return
    print(f'{warning} It cannot be undone. Type "{word}" to go on:', file=sys.stderr)
    try:
        typed = input().strip()
    except EOFError:
        typed = ""
    if typed != word:
        raise SettingsError("Nothing was removed: the confirmation was not typed. Use --yes to go without.")


def _say(args: argparse.Namespace, words: str, **values: object) -> int:
    print(json.dumps(values) if args.json else words)
    return 0


def _line(source: Source) -> str:
    """A conversation, or what is left of one, with the id it is forgotten by."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(source.updated)) if source.updated else f"{'':16}"
    learned = f"{source.answers:,} answers, {source.ngrams:,} n-grams, {source.versions:,} adapter versions"
    return f"{source.id}  {when}  {source.title} ({learned})"
