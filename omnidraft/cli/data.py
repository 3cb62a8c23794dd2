"""Arguments of every command that opens a profile, and its data home opened by them, whether encrypted or not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from omnidraft.storage.encryption import open_home
from omnidraft.storage.encryption.header import Asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--encrypt", action="store_true", help="keep all profiles encrypted from now on; asks for a passphrase"
    )
    add_passphrase_file(parser)


def add_passphrase_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE",
        help="its first line is the passphrase of encrypted data (default: OMNIDRAFT_PASSPHRASE, else it is asked for)",
    )  # fmt: skip


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[None]:
    """Have the data home open inside, so that nobody converts it; made encrypted first if that is asked for."""
    with closing(open_home(args.data_dir, Asked(args.passphrase_file), args.encrypt)):
        yield
