"""`bench drift`: run and list drift schedules, and write them as JSON, CSV and SVG."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

from omnidraft.app.catalog import choose_target, need_drafter
from omnidraft.bench.report import Report, Table, text
from omnidraft.cli.interrupt import Interrupts
from omnidraft.cli.report import draft_length
from omnidraft.lab import runs as drift
from omnidraft.lab.export import SegmentRow, picture, segment_rows, to_csv, to_json
from omnidraft.lab.schedule import BUNDLED, load_schedule
from omnidraft.lab.store import CACHES, Options, Point, RunState, RunStore, runs_folder, seconds_left
from omnidraft.plot import THEMES
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome, find_data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--schedule", help=f"{', '.join(BUNDLED)}, or a JSON file")
    what.add_argument("--show", metavar="RUN", help="print and export a run as it is")
    what.add_argument("--list", action="store_true", help="list the runs there are")
    parser.add_argument("--target", nargs="+", help="models in place of the schedule's, in the order they appear there")
    parser.add_argument("--prompts", type=int, help="prompts per segment")
    parser.add_argument("--task", help="ask this task, or prompt file, in every segment (math, code, ..., mixed)")
    parser.add_argument("--drafter")
    parser.add_argument("--cache", choices=CACHES, default="seeded", help="the n-gram cache at the beginning")
    parser.add_argument("--draft-length", default="4", help="drafter tokens per round, or adaptive")
    parser.add_argument("--learn", action="store_true", help="train the drafter on the answers as the run goes on")
    parser.add_argument("--paired", action="store_true", help="measure plain decoding of every prompt too")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--profile", default="default", help="whose folder the run is kept in; its chats are not used")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the run")
    parser.add_argument("--theme", choices=THEMES, default="light", help="of the drawing")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one line per prompt")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the whole run as JSON")
    parser.add_argument("--discard", action="store_true", help="remove the run from the data folder at its end")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    store = RunStore(runs_folder(home.profile(args.profile)))
    if args.list:
        return _list(store, args.json)
    if args.show:
        _report(args, store.load(args.show))
        return 0
    going = _new(args, home, store.folder)
    if not args.discard:
        print(f"Drift run {going.state.id}; --show {going.state.id} prints it again.", file=sys.stderr)
    with Interrupts(going.stop) as interrupts:
        for event in going.events():
            if isinstance(event, Point):
                _show(event, going.state, args.json)
    if going.state.status != "finished":
        print(f"The run is {going.state.status}.", file=sys.stderr)
    _report(args, going.state)
    if args.discard:
        store.delete(going.state.id)
    interrupts.check()
    return 0


def _new(args: argparse.Namespace, home: DataHome, folder: Path) -> drift.DriftRun:
    schedule = load_schedule(args.schedule).changed(args.prompts, args.task, args.target)
    files = [choose_target(name, home) for name in schedule.targets]
    if args.target and len({file.stem for file in files}) == len(files):  # a name says more than a path
        schedule = schedule.changed(targets=[file.stem for file in files])
    targets = dict(zip(schedule.targets, files, strict=True))
    drafter = need_drafter(args.drafter, home, next(iter(targets.values())))
    options = Options(
        cache=args.cache, draft_length=draft_length(args.draft_length), plain=args.paired, learning=args.learn,
        max_tokens=args.max_tokens, temperature=args.temperature, seed=args.seed, threads=args.threads,
    )  # fmt: skip
    return drift.start(home, folder, schedule, targets, drafter, options)


def _list(store: RunStore, as_json: bool) -> int:
    runs = store.runs()
    for state in runs:
        about = {"id": state.id, "schedule": state.schedule.name, "status": state.status, "done": state.done,
                 "total": state.total, "created": state.created}  # fmt: skip
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(state.created))
        shown = f"{state.done:4} of {state.total:4} prompts  {state.status}"
        print(json.dumps(about) if as_json else f"{state.id}  {when}  {state.schedule.name:10} {shown}")
    if not runs and not as_json:
        print("There are no drift runs.")
    return 0


def _show(p: Point, state: RunState, as_json: bool) -> None:
    left = seconds_left(state)
    if as_json:
        about = {"done": state.done, "total": state.total, "seconds_left": left}
        print(json.dumps({**dataclasses.asdict(p), **about}), flush=True)
        return
    rate = "   -" if p.acceptance is None else f"{p.acceptance:.2f}"
    speedup = "" if p.speedup is None else f"  x{p.speedup:.2f}"
    print(
        f"{'| ' if p.switch else '  '}{state.done:4} of {state.total}  {p.target:16} {p.prompt:14} acc {rate}  "
        f"tok/pass {p.tokens_per_pass:4.2f}  {p.tokens_per_second:7.1f} tok/s{speedup}  "
        f"{p.cache_learned} n-grams learned  {left:.0f} s left",
        flush=True,
    )


def _report(args: argparse.Namespace, state: RunState) -> None:
    """The table per segment (JSON: one last line), and the files asked for."""
    rows = segment_rows(state)
    if args.json:
        about = {"run": state.id, "status": state.status, "schedule": state.schedule.name}
        print(json.dumps({**about, "segments": [dataclasses.asdict(row) for row in rows]}))
    else:
        print(*text(Report({}, [_table(rows)])), sep="\n")
    if args.csv:
        _write(args.csv, to_csv(state).encode())
    if args.out:
        _write(args.out, json.dumps(to_json(state), indent=1).encode())
    if args.svg:
        _write(args.svg, picture(state, args.theme).encode())


def _table(rows: list[SegmentRow]) -> Table:
    return Table(
        "",
        ["target", "task", "prompts", "accepted", "before", "first", "last", "recovered", "tokens/pass", "tokens/s",
         "speedup", "n-grams learned"],
        [[r.target, r.task, r.prompts, r.acceptance, r.before, r.first, r.last, r.recovery, r.tokens_per_pass,
          r.tokens_per_second, r.speedup, r.cache_learned] for r in rows],
    )  # fmt: skip


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)
