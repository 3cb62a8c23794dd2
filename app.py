"""Starts the app: `python app.py`, then open the address it prints. Parses arguments and launches, nothing more."""

from __future__ import annotations

import argparse
import getpass
import importlib.util
import logging
import os
import socket
import sys
import threading
import webbrowser
from pathlib import Path

from omnidraft.cli import data
from omnidraft.cli.data import opened
from omnidraft.errors import OmniDraftError, SettingsError, StorageError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import keep_private, make_private
from omnidraft.storage.log import begin_log, keep_log
from omnidraft.storage.paths import DEFAULT_PROFILE, DataHome, find_data_home, profile_name
from omnidraft.storage.scratch import FileLock
from omnidraft.storage.vault import held

log = logging.getLogger("omnidraft")
KEY_HELP = (
    "what clients of /v1 must send (default: OMNIDRAFT_API_KEY, else nothing); with --auth-file it is not used, "
    "for there they send NAME:PASSWORD"
)


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
    if not args.add_user:
        _check_exposed(args)
        _check_port(args.host, args.port)
    if args.add_user:
        return _add_user(args)
    with opened(args):
        return _serve(args, home, profile)


def _serve(args: argparse.Namespace, home: DataHome, profile: str) -> int:
    _check_models(args, home, profile)
    if args.window:
        _check_window()
    lock = _only_one(home)
    keep_log(home.log)
    from omnidraft.app.sessions import Sessions
    from omnidraft.profiles.accounts import Accounts
    from omnidraft.profiles.folders import remove_leftovers
    from ui import server  # Gradio takes seconds to import; wrong arguments should not wait for it

    make_private(home.profiles)  # an earlier version may have let others read
    remove_leftovers(home)
    accounts = Accounts(args.auth_file) if args.auth_file else None
    sessions = Sessions(
        home, profile, args.target, args.drafter, accounts, args.workers, args.split, _templates(args, home, profile)
    )
    app = server.make_app(sessions, args.host, args.allow_host, api_key=_api_key(args))
    address = f"http://{_shown(args.host)}:{args.port}"
    encrypted = ", encrypted" if held(home.root) is not None else ""
    print(f"OmniDraft is at {address} (Ctrl+C ends it). Data: {home.root}{encrypted}", flush=True)
    if args.open and not args.window:
        threading.Timer(1.0, webbrowser.open, [address]).start()
    try:
        if args.window:
            server.serve_in_window(app, args.host, args.port, address)
        else:
            server.serve(app, args.host, args.port, args.trust_proxy)
    finally:
        lock.release()
    return 0


def _check_models(args: argparse.Namespace, home: DataHome, profile: str) -> None:
    """ModelError if a model that was named is not there."""
    from omnidraft.app.catalog import choose_drafter, choose_target
    from omnidraft.settings.file import load_settings

    settings, _ = load_settings(home.profile(profile).settings)
    if args.target:
        choose_target(args.target, home, settings)
    if args.drafter:
        choose_drafter(args.drafter, home, settings)


def _templates(args: argparse.Namespace, home: DataHome, profile: str) -> tuple[str, ...]:
    """The template that was named, as the setting `templates` has it, for the target the app starts with. ModelError
    if there is none."""
    if args.template is None:
        return ()
    from omnidraft.app.catalog import choose_target
    from omnidraft.settings.file import load_settings

    if not args.template.is_file():
        raise SettingsError(f"There is no chat template {args.template}.")
    target = choose_target(args.target, home, load_settings(home.profile(profile).settings)[0])
    return (f"{target.name} = {args.template.absolute()}",)


def _check_window() -> None:
    """SettingsError where nothing can open a window."""
    if importlib.util.find_spec("webview") is None:
        raise SettingsError("--window needs the package pywebview: pip install pywebview==6.2.1, or use --open.")


def _only_one(home: DataHome) -> FileLock:
    """The lock on a data home, held while the app runs; StorageError if another one holds it."""
    lock = FileLock(home.root / "app.lock")
    if not lock.acquire():
        raise StorageError(
            f"Another OmniDraft is running with the data in {home.root}; use that one, end it first, or name another "
            "place with --data-dir."
        )
    return lock


def _api_key(args: argparse.Namespace) -> str | None:
    """What clients of the API must send, unless accounts decide who may use it."""
    key = args.api_key or os.environ.get("OMNIDRAFT_API_KEY") or None
    if key and args.auth_file:
        log.warning("The API key is not used: with --auth-file, clients of /v1 send NAME:PASSWORD of an account.")
    return key


def _add_user(args: argparse.Namespace) -> int:
    """Ask for a password and store its hash."""
    from omnidraft.profiles.accounts import add_account

    if args.auth_file is None:
        raise SettingsError("--add-user needs --auth-file, the file to add the account to.")
    add_account(args.auth_file, args.add_user, getpass.getpass(f"Password for {args.add_user}: "))
    print(f"{args.add_user} can sign in now.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="app.py", description="A local chat assistant that drafts.")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only; others need --auth-file)"
    )
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name this machine may be called by (may be repeated)",
    )
    parser.add_argument(
        "--trust-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a proxy whose X-Forwarded-For names the client (may be repeated; default: nobody's word is taken)",
    )
    parser.add_argument("--data-dir", type=Path, help="where this program keeps its data (default: per user)")
    data.add_arguments(parser)
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="the profile to start with")
    parser.add_argument("--target", help="model file, or a name as the model list shows it")
    parser.add_argument("--template", type=Path, help="a file with the target's chat template, instead of its own")
    parser.add_argument("--drafter", help="drafter file (default: the profile's, first the bundled one)")
    parser.add_argument("--workers", help="host:port of workers that hold layers of the target, with commas between")
    parser.add_argument("--split", help="shares of the layers with commas, this machine first (default: free memory)")
    parser.add_argument("--api-key", help=KEY_HELP)
    parser.add_argument("--auth-file", type=Path, help="accounts that must sign in; each has the profile of its name")
    parser.add_argument("--add-user", metavar="NAME", help="add an account to --auth-file and end")
    parser.add_argument("--open", action="store_true", help="open a browser")
    parser.add_argument("--window", action="store_true", help="open a window of its own (needs pywebview); it ends all")
    return parser


def _check_exposed(args: argparse.Namespace) -> None:
    """SettingsError if other machines could reach the pages and nobody would have to sign in."""
    from omnidraft.server.guard.security import is_local

    if args.auth_file is None and not is_local(args.host):
        raise SettingsError(
            f"--host {args.host} would show every conversation to other machines: add accounts with --auth-file (an "
            "API key does not protect the pages)."
        )


def _check_port(host: str, port: int) -> None:
    """SettingsError in one sentence if nothing can listen there."""
    if not 0 < port < 65536:
        raise SettingsError(f"--port is {port}, but must be a whole number from 1 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}); choose another --port."
        ) from None


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(main())
