"""Starts the app: `python app.py`, then open the address it prints. Parses arguments and launches, nothing more."""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import webbrowser
from pathlib import Path

from omnidraft.cli.encryption import add_home_arguments, opened
from omnidraft.errors import OmniDraftError, SettingsError, StorageError
from omnidraft.server import HOST
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import keep_private, make_private
from omnidraft.storage.log import begin_log, keep_log
from omnidraft.storage.paths import DEFAULT_PROFILE, DataHome, find_data_home, profile_name
from omnidraft.storage.scratch import FileLock
from omnidraft.storage.vault import held


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    keep_private()
    begin_log()
    try:
        return _run(args)
    except OmniDraftError as error:
        print(f"omnidraft: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    profile = profile_name(args.profile)
    ModelSettings(workers=args.workers, split=args.split)  # refuses what is no address before anything starts
    _check_port(args.port)
    with opened(args):
        return _serve(args, home, profile)


def _serve(args: argparse.Namespace, home: DataHome, profile: str) -> int:
    _check_models(args, home, profile)
    lock = _only_one(home)
    keep_log(home.log)
    from omnidraft.app.sessions import Sessions
    from omnidraft.backends.llama.kernels import library
    from omnidraft.profiles.folders import remove_leftovers
    from ui import server  # Gradio takes seconds to import; wrong arguments should not wait for it

    make_private(home.profiles)  # an earlier version may have let others read
    remove_leftovers(home)
    sessions = Sessions(home, profile, args.target, args.drafter, args.workers, args.split)
    library.build_soon()  # until it is there llama.cpp's own kernels compute
    app = server.make_app(sessions)
    address = f"http://{HOST}:{args.port}"
    encrypted = ", encrypted" if held(home.root) is not None else ""
    print(f"OmniDraft is at {address} (Ctrl+C ends it). Data: {home.root}{encrypted}", flush=True)
    if args.open:
        threading.Timer(1.0, webbrowser.open, [address]).start()
    try:
        server.serve(app, args.port)
    finally:
        lock.release()
    return 0


def _check_models(args: argparse.Namespace, home: DataHome, profile: str) -> None:
    """ModelError if a model that was named is not there."""
    from omnidraft.app.models_list import choose_drafter, choose_target
    from omnidraft.settings.file import load_settings

    settings, _ = load_settings(home.profile(profile).settings)
    if args.target:
        choose_target(args.target, home, settings)
    if args.drafter:
        choose_drafter(args.drafter, home, settings)


def _only_one(home: DataHome) -> FileLock:
    """The lock on a data home, held while the app runs; StorageError if another one holds it."""
    lock = FileLock(home.root / "app.lock")
    if not lock.acquire():
        raise StorageError(
            f"Another OmniDraft is running with the data in {home.root}; use that one, end it first, or name another "
            "place with --data-dir."
        )
    return lock


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="app.py", description="A local chat assistant that drafts.")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--data-dir", type=Path, help="where this program keeps its data (default: per user)")
    add_home_arguments(parser)
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="the profile to start with")
    parser.add_argument("--target", help="model file, or a name as the model list shows it")
    parser.add_argument("--drafter", help="drafter file (default: the profile's, first the bundled one)")
    parser.add_argument("--workers", help="host:port of workers that hold layers of the target, with commas between")
    parser.add_argument("--split", help="shares of the layers with commas, this machine first (default: free memory)")
    parser.add_argument("--open", action="store_true", help="open a browser")
    return parser


def _check_port(port: int) -> None:
    """SettingsError in one sentence if nothing can listen there."""
    if not 0 < port < 65536:
        raise SettingsError(f"--port is {port}, but must be a whole number from 1 to 65535.")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError as error:
        told = f"Cannot listen on {HOST}:{port} ({error.strerror or error}); choose another --port."
        raise SettingsError(told) from None


if __name__ == "__main__":
    sys.exit(main())
