"""`encryption`: whether the data home is encrypted, and how that is begun, ended, and given another passphrase."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from pathlib import Path

from omnidraft.cli.report import add_action
from omnidraft.storage.encryption import change_passphrase, make_plain, open_home
from omnidraft.storage.encryption.conversion import is_unsettled
from omnidraft.storage.encryption.header import read_header
from omnidraft.storage.encryption.passphrase import NEW_VARIABLE, Asked
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
    told = f"The data in {root} is {'not ' if read_header(root) is None else ''}encrypted."
    return f"{told} The next start removes what a conversion left there." if is_unsettled(root) else told


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


# Arguments of every command that opens a profile, and its data home opened by them, whether encrypted or not.


def add_home_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--encrypt", action="store_true", help="keep all profiles encrypted from now on; asks for a passphrase"
    )
    add_passphrase_file(parser)


def add_passphrase_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE",
        help="its first line is the passphrase of encrypted data (default: OMNIDRAFT_PASSPHRASE, else it is asked for)",
    )  # fmt: skip


def opened(args: argparse.Namespace) -> AbstractContextManager[None]:
    """The data home is open in the block, so that nobody converts it; made encrypted first if that is asked for."""
    return open_home(args.data_dir, Asked(args.passphrase_file), args.encrypt)
