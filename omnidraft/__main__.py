"""`python -m omnidraft COMMAND`: parses arguments and turns errors into one sentence and an exit code.

Exit codes: 0 done, 2 the user's to mend (one sentence on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from omnidraft.cli.interrupt import between_imports
from omnidraft.errors import OmniDraftError
from omnidraft.storage.files import keep_private
from omnidraft.storage.paths import PROGRAM

_COMMANDS = {
    "chat": "talk to a model, or answer prompts and print JSON",
    "models": "list the models found, or get one",
    "bench": "measure what the project claims",
    "profile": "list and forget what belongs to a person",
    "worker": "lend this machine to a larger model's layers",
    "encryption": "keep the data encrypted, or not any more",
}
_OPENING = ("chat", "bench", "profile")  # may open a profile, which may be encrypted


def main(argv: list[str] | None = None) -> int:
    try:
        with between_imports():
            keep_private()
            _tolerate_any_text()
            arguments = sys.argv[1:] if argv is None else argv
            args = _parser(arguments[0] if arguments else "").parse_args(arguments)
            with args.opened(args):
                return args.run(args)
    except OmniDraftError as error:
        print(f"omnidraft: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; say nothing more
        return 0


def command() -> int:
    """What the installed command `omnidraft` does: without a command it opens the app in the browser."""
    arguments = sys.argv[1:]
    if arguments and (not arguments[0].startswith("-") or arguments[0] in ("-h", "--help")):
        return main(arguments)
    sys.path.insert(0, str(PROGRAM))
    app = importlib.import_module("app")
    return app.main(["--open", *arguments])


def _tolerate_any_text() -> None:
    """A letter that the terminal cannot show, or bad bytes typed into it, shall not end the program."""
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _parser(wanted: str) -> argparse.ArgumentParser:
    """Knows every command, and the arguments of the `wanted` one: only that is imported.

    Imported here, so that Ctrl+C while the libraries load is met by `main`.
    """
    parser = argparse.ArgumentParser(prog="python -m omnidraft", description="A local chat assistant that drafts.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        if name != wanted:
            continue
        module = importlib.import_module(f"omnidraft.cli.{name}")
        sub.add_argument("--data-dir", type=Path, help="where this program keeps its data (default: per user)")
        sub.set_defaults(opened=lambda args: nullcontext())
        if name in _OPENING:
            from omnidraft.cli import encryption

            encryption.add_home_arguments(sub)
            sub.set_defaults(opened=encryption.opened)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
