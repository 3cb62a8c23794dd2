"""`bench learn`: arguments, progress and files of a learning run."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from omnidraft.app.default_models import choose_drafter, choose_target
from omnidraft.bench.columns import COLUMNS, columns
from omnidraft.bench.learn_plan import LOSS_NAMES, LearnPlan
from omnidraft.errors import ModelError, StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome, find_data_home


def add_kind(kinds) -> None:
    """The `learn` parser; unlike the other kinds' its --json names a file."""
    text = "what the drafter gains by learning from a stream of answers"
    parser = kinds.add_parser("learn", help=text, description=text.capitalize() + ".")
    parser.add_argument("--data-dir", default=argparse.SUPPRESS, help="where this program keeps its data")
    parser.add_argument("--json", type=Path, metavar="FILE", required=True,
                        help="write the numbers here; what FILE.cells holds already is not run again")  # fmt: skip
    _add_arguments(parser)
    parser.set_defaults(bench=run)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    parser.add_argument("--drafter")
    parser.add_argument("--tasks", default=",".join(TASKS), help="names, or files of prompts (--data), with commas")
    parser.add_argument("--data", type=Path, help="a folder of TASK.jsonl to take the place of the bundled prompts")
    parser.add_argument("--test-file", type=Path, help="test on the prompts of this file")
    parser.add_argument("--from", type=Path, dest="recorded", metavar="FILE",
                        help="take over the answers that another run with this --json or --out FILE kept")  # fmt: skip
    parser.add_argument("--loss", default="projected", help=f"of {', '.join(LOSS_NAMES)}, with commas")
    parser.add_argument("--train-prompts", type=int, default=300)
    parser.add_argument("--test-prompts", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-tokens", type=int, default=128, help="longest answer to learn from")
    parser.add_argument("--test-tokens", type=int, default=64)
    parser.add_argument("--temperature", default=COLUMNS, help="of the tests: numbers and default")
    parser.add_argument("--train-temperature", type=float, default=1.0)
    parser.add_argument("--no-reference", action="store_true", help="do not distil offline to convergence")
    parser.add_argument("--no-curve", action="store_true", help="test at the end only")
    parser.add_argument("--sequence", action="store_true", help="also learn the tasks one after the other")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--rehearsal", type=float, help="weight of what keeps the drafter as it was elsewhere; 0: none")
    parser.add_argument("--interval", type=int, help="answers between two updates")
    parser.add_argument("--speed", metavar="REGIME", help="also time the drafter before and after, e.g. 0.5b-Q8_0")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the learning curves")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    plan = _plan(args, home)
    from omnidraft.bench import learn, learn_report  # brings torch

    folder = args.json.with_suffix(".cells")
    found = []
    for cell, condition, result in learn.run(plan, folder, home.cache, lambda line: print(line, file=sys.stderr)):
        found.append((cell, condition, result))
        _write(args.json, json.dumps(learn_report.as_json(found, plan.decides()), indent=1).encode())
    printed = learn_report.markdown if args.markdown else learn_report.lines
    for line in printed(found):
        print(line)
    if args.speed:
        _speed(plan, folder, home, args.speed, args.json)
    if args.png:
        from omnidraft.bench.learn_plot import png

        _write(args.png, png(found, list(plan.losses)))
    return 0


def _plan(args: argparse.Namespace, home: DataHome) -> LearnPlan:
    drafter = choose_drafter(args.drafter, home)
    if drafter is None:
        raise ModelError("No drafter was found; name one with --drafter.")
    given = {name: getattr(args, name) for name in ("learning_rate", "rank", "rehearsal", "interval")}
    return LearnPlan(
        targets=[choose_target(name, home) for name in args.target],
        drafter=drafter,
        tasks=args.tasks.split(","),
        losses=args.loss.split(","),
        train_prompts=args.train_prompts,
        test_prompts=args.test_prompts,
        seeds=args.seeds,
        train_tokens=args.train_tokens,
        test_tokens=args.test_tokens,
        temperatures=columns(args.temperature),
        train_temperature=args.train_temperature,
        data=args.data,
        test_file=args.test_file,
        curve=not args.no_curve,
        reference=not args.no_reference,
        sequence=args.sequence,
        threads=args.threads,
        recorded=args.recorded.with_suffix(".cells") if args.recorded else None,
        learning=replace(LearningSettings(), **{name: value for name, value in given.items() if value is not None}),
    )


def _speed(plan: LearnPlan, folder: Path, home: DataHome, regime: str, out: Path) -> None:
    """Append "speed" to the JSON file, row by row."""
    from omnidraft.bench import learn_speed

    report = json.loads(out.read_bytes()) | {"speed": []}
    for row in learn_speed.run(plan, folder, home, regime, ["cache", *plan.losses]):
        print(learn_speed.line(row), flush=True)
        report["speed"].append(asdict(row))
        _write(out, json.dumps(report, indent=1).encode())


def _write(path: Path, data: bytes) -> None:
    if not path.parent.is_dir():
        raise StorageError(f"There is no folder {path.parent} to write {path.name} to.")
    write_atomically(path, data)
