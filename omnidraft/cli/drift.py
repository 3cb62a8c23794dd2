"""`bench drift`: run a drift schedule, and print what happened in each of its parts."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.cli.interrupt import Interrupts
from omnidraft.lab.drift import BUNDLED, DriftRun, Loading, Plan, Point
from omnidraft.lab.drift_lab import segment_rows
from omnidraft.lab.results import Columns, Report, Table, as_text, json_lines
from omnidraft.storage.paths import DEFAULT_PROFILE, DataHome, find_data_home, make_folder
from omnidraft.storage.scratch import Scratch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schedule", required=True, choices=BUNDLED)
    parser.add_argument("--target", nargs="+", help="models in place of the schedule's, in the order they appear there")
    parser.add_argument("--prompts", type=int, help="prompts per segment")
    parser.add_argument("--task", help="ask this task, or prompt file, in every segment (math, code, ..., mixed)")
    parser.add_argument("--drafter")
    parser.add_argument("--learn", action="store_true", help="train the drafter on the answers as the run goes on")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    plan = _plan(args, home)
    folder = home.profile(DEFAULT_PROFILE).root / "drift"
    make_folder(folder.parent)
    make_folder(folder)
    points: list[Point] = []
    with Scratch("run-", folder) as place:
        going = DriftRun(home, place, plan)
        with Interrupts(going.stop) as interrupts:
            for event in going.events():
                if isinstance(event, Loading):
                    print(f"Loading {event.target}.", file=sys.stderr)
                else:
                    points.append(event)
                    _show(event, len(points), plan.schedule.total, args.json)
    rows = [asdict(row) for row in segment_rows(plan.schedule, points)]
    found = {"finished": len(points) == plan.schedule.total, "segments": rows}
    report = Report(found, [Table.of("", rows, _COLUMNS)])
    print(*(json_lines(report) if args.json else as_text(report)), sep="\n")
    interrupts.check()
    return 0


def _plan(args: argparse.Namespace, home: DataHome) -> Plan:
    schedule = BUNDLED[args.schedule].changed(args.prompts, args.task, args.target)
    files = [choose_target(name, home) for name in schedule.targets]
    if args.target and len({file.stem for file in files}) == len(files):  # a name says more than a path
        schedule = schedule.changed(targets=[file.stem for file in files])
    targets = {name: str(file) for name, file in zip(schedule.targets, files, strict=True)}
    drafter = need_drafter(args.drafter, home, files[0])
    return Plan(schedule, targets, str(drafter), args.learn, args.max_tokens, args.threads)


def _show(p: Point, done: int, total: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(p)), flush=True)
        return
    rate = f"{p.accepted / p.proposed:.2f}" if p.proposed else "   -"
    print(
        f"{'| ' if p.switch else '  '}{done:4} of {total}  {p.target:16} {p.prompt:14} acc {rate}  "
        f"tok/pass {p.tokens / max(p.passes, 1):4.2f}  {p.cache_learned} n-grams learned",
        flush=True,
    )


_COLUMNS: Columns = {
    "target": "target", "task": "task", "prompts": "prompts", "accepted": "acceptance", "before": "before",
    "first": "first", "last": "last", "recovered": "recovery", "tokens/pass": "tokens_per_pass",
    "tokens/s": "tokens_per_second", "n-grams learned": "cache_learned",
}  # fmt: skip
