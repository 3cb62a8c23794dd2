"""`bench paper`: arguments, the run, and its tables as Markdown, JSON and PNG."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench.columns import columns
from omnidraft.bench.paper.plan import TABLES, Plan, full, quick
from omnidraft.errors import StorageError
from omnidraft.processes.cores import physical_cores
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome, find_data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", required=True,
                        help="write the numbers here; what FILE.cells holds is not run again")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="every table once, small, in a quarter of an hour")
    parser.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    parser.add_argument("--drafter")
    parser.add_argument("--tables", default=",".join(TABLES), help=f"of {', '.join(TABLES)}")
    parser.add_argument("--tasks", help="names, or files of prompts, with commas")
    parser.add_argument("--data", type=Path, help="a folder of TASK.jsonl to take the place of the bundled prompts")
    parser.add_argument("--from", type=Path, dest="recorded", metavar="FILE",
                        help="take over the answers that another run with this --json or --out FILE kept")  # fmt: skip
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--train-prompts", type=int, help="answers to learn from in a cell")
    parser.add_argument("--test-prompts", type=int)
    parser.add_argument("--test-tokens", type=int)
    parser.add_argument("--temperature", help="of the tests: numbers and default with commas")
    parser.add_argument("--regimes", help="that are timed, with commas")
    parser.add_argument("--shapes", help="of targets whose sizes are compared, with commas: bundled, 0.5b, 1b")
    parser.add_argument("--timed-prompts", type=int)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here too")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the tables")


def run(args: argparse.Namespace) -> int:
    files = [file for file in (args.out, args.markdown, args.png) if file]
    if missing := [file for file in files if not file.parent.is_dir()]:
        raise StorageError(f"There is no folder {missing[0].parent} to write {missing[0].name} to.")
    home = find_data_home(args.data_dir)
    plan = _plan(args, home)
    from omnidraft.bench.paper import report
    from omnidraft.bench.paper.run import run as make  # brings torch

    tables: dict[str, dict] = {}
    for tables in make(plan, args.out.with_suffix(".cells"), home, _told):
        write_atomically(args.out, json.dumps({"plan": plan.decides(), "tables": tables}, indent=1).encode())
        if args.png:
            from omnidraft.bench.paper.plot import png

            write_atomically(args.png, png(tables))
    text = "\n".join(report.markdown(tables))
    if args.markdown:
        write_atomically(args.markdown, (text + "\n").encode())
    print(json.dumps(tables) if args.json else text)
    return 0


def _plan(args: argparse.Namespace, home: DataHome) -> Plan:
    targets = [choose_target(name, home) for name in args.target]
    asked: dict[str, Any] = {
        "tasks": args.tasks.split(",") if args.tasks else None, "data": args.data, "seeds": args.seeds,
        "train_prompts": args.train_prompts, "test_prompts": args.test_prompts, "test_tokens": args.test_tokens,
        "temperatures": columns(args.temperature) if args.temperature else None,
        "threads": args.threads or physical_cores(),
        "recorded": args.recorded.with_suffix(".cells") if args.recorded else None,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value is not None}
    plan = (quick if args.quick else full)(targets, need_drafter(args.drafter, home), **given)
    changes: dict[str, Any] = {"tables": args.tables.split(",")}
    if args.regimes:
        changes["timed"] = args.regimes.split(",")
    if args.shapes:
        changes["shapes"] = args.shapes.split(",")
    if args.timed_prompts:
        changes["timed_prompts"] = args.timed_prompts
    return replace(plan, **changes)


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
