"""`encryption`: whether the data home is encrypted, and how that is begun, ended, and given another passphrase."""

from __future__ import annotations

import argparse
from pathlib import Path

from omnidraft.cli.data import add_passphrase_file, opened
from omnidraft.cli.report import add_action
from omnidraft.storage.encryption import change_passphrase, make_plain
from omnidraft.storage.encryption.header import NEW_VARIABLE, Asked, read_header
from omnidraft.storage.paths import data_root


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_action(actions, "status", "say whether the data is encrypted", _status)
    add_passphrase_file(add_action(actions, "on", "encrypt all profiles", _on))
    add_passphrase_file(add_action(actions, "off", "make all profiles readable again", _off))
    sub = add_action(actions, "change", "choose another passphrase", _change)
    add_passphrase_file(sub)
    sub.add_argument("--new-passphrase-file", type=Path, metavar="FILE", help="its first line is the new passphrase")


def run(args: argparse.Namespace) -> int:
    print(args.act(args))
    return 0


def _status(args: argparse.Namespace) -> str:
    root = data_root(args.data_dir)
    header = read_header(root)
    if header is None:
        return f"The data in {root} is not encrypted."
    if header.step:
        return f"The data in {root} is being made {header.becomes}; the next start with the passphrase ends it."
    return f"The data in {root} is encrypted."


def _on(args: argparse.Namespace) -> str:
    args.encrypt = True
    with opened(args):
        return _status(args)


def _off(args: argparse.Namespace) -> str:
    return f"The data in {make_plain(args.data_dir, Asked(args.passphrase_file))} is not encrypted any more."


def _change(args: argparse.Namespace) -> str:
    new = Asked(args.new_passphrase_file, NEW_VARIABLE, "New passphrase")
    root = change_passphrase(args.data_dir, Asked(args.passphrase_file), new)
    return f"The data in {root} has another passphrase now; copies of the folder made earlier keep the old one."
