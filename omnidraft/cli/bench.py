"""`bench`: what the project claims about itself, measured on this machine.

Every benchmark has a plan, whose fields are its arguments (bench/plans.py), and a module that runs it. Reports are
printed and written here, whenever a cell is finished.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from omnidraft.backends.llama.kernels import library
from omnidraft.bench import plans
from omnidraft.bench.plans import Work
from omnidraft.cli.interrupt import terminated
from omnidraft.cli.report import add_action
from omnidraft.errors import StorageError
from omnidraft.lab.results import Cells, as_text, json_lines, plain, write
from omnidraft.settings.fields import Rule, describe
from omnidraft.storage.paths import find_data_home

BENCHMARKS: dict[str, type[plans.Plan]] = {
    "speed": plans.Speed,
    "passes": plans.Passes,
    "learn": plans.Learn,
    "peers": plans.Peers,
    "drift": plans.Drift,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for name, plan in BENCHMARKS.items():
        sub = add_action(kinds, name, plan.__doc__ or "")
        sub.add_argument("--json", action="store_true", help="print JSON, an object a line")
        for setting in describe(plan):
            _add_field(sub, setting.name, setting.rule, setting.default)
        sub.add_argument("--out", type=Path, metavar="FILE",
                         help="write the numbers here; what is kept beside it (.cells) is not run again")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    library.wait_for(library.build_soon())
    with terminated():  # the processes that a measurement started are ended, too
        return _run(args)


def _add_field(sub: argparse.ArgumentParser, name: str, rule: Rule, default: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    if rule.kind == "switch":
        sub.add_argument(flag, action="store_true", help=rule.help)
        return
    shown = ",".join(default) if rule.kind == "texts" else default
    help = rule.help if shown in (None, "") else f"{rule.help} (default: {shown})"
    kind, several = _whole if rule.kind == "integer" else str, "+" if rule.kind == "texts" else None
    sub.add_argument(flag, type=kind, nargs=several, default=default, help=help)


def _whole(text: str) -> int | str:
    """What is no number is left to the plan to refuse."""
    with suppress(ValueError):
        return int(text)
    return text


def plan_of(args: argparse.Namespace) -> plans.Plan:
    """The plan that the arguments say; SettingsError for what it does not accept."""
    plan = BENCHMARKS[args.kind]
    values = {setting.name: getattr(args, setting.name) for setting in describe(plan)}
    for name, value in values.items():
        if isinstance(value, list):  # texts, with blanks or commas between them
            values[name] = tuple(part.strip() for one in value for part in one.split(","))
    return plan(**values)


def _run(args: argparse.Namespace) -> int:
    """Write after every report; print the last one, also of a run that is interrupted. Finished cells are kept beside
    the file that is written, else nowhere for long."""
    plan, home = plan_of(args), find_data_home(args.data_dir)
    if args.out and not args.out.parent.is_dir():
        raise StorageError(f"There is no folder {args.out.parent} to write {args.out.name} to.")
    module = importlib.import_module(f"omnidraft.bench.{args.kind}")  # some bring torch
    told, report = partial(print, file=sys.stderr, flush=True), None
    found = lambda value, words: print(json.dumps(plain(value)) if args.json else words, flush=True)  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="omnidraft-") as passing:
        cells = Cells(args.out.with_suffix(".cells") if args.out else Path(passing))
        try:
            for report in module.run(plan, Work(home, cells, told, found)):
                if args.out:
                    write(report, args.out)
        finally:
            if report is not None:
                print(*(json_lines(report) if args.json else as_text(report)), sep="\n", flush=True)
    return 0
