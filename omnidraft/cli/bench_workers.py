"""`bench workers`: its arguments and its report."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import workers
from omnidraft.bench.regimes import REGIMES
from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.addresses import MOST, parse_split
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import find_data_home


def add_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--target", default="tiny-target-a")
    sub.add_argument("--drafter")
    sub.add_argument("--adapter", type=Path, help="what the drafter learned, a GGUF LoRA of it as it came")
    sub.add_argument("--regime", default="0.5b-Q8_0", help=f"of {', '.join(REGIMES)}")
    sub.add_argument("--count", type=int, default=2, help="workers to start")
    sub.add_argument("--split", help="shares of the layers with commas, this machine first (default: free memory)")
    sub.add_argument("--delays", default="0,0.5,2,10", help="milliseconds added to a round trip")
    sub.add_argument("--tasks", default=",".join(TASKS))
    sub.add_argument("--prompts", type=int, default=2, help="prompts per task")
    sub.add_argument("--max-tokens", type=int, default=48)
    sub.add_argument("--temperature", type=float, default=0.0)
    sub.add_argument("--threads", type=int, default=0, help="of this machine and of each worker")
    sub.add_argument("--out", type=Path, help="write all rows to this JSON file")
    sub.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if not 1 <= args.count <= MOST:
        raise SettingsError(f"--count is {args.count}, but must be from 1 to {MOST}.")
    if args.prompts < 1 or args.max_tokens < 8:
        raise SettingsError("--prompts must be at least 1 and --max-tokens at least 8.")
    if args.adapter is not None and not args.adapter.is_file():
        raise StorageError(f"There is no file {args.adapter}.")
    parse_split(args.split)
    plan = workers.Plan(
        args.regime, args.tasks.split(","), args.prompts, args.max_tokens, args.temperature, _delays(args.delays),
        args.count, args.split, args.threads, args.adapter,
    )  # fmt: skip
    rows = []
    for row in workers.run(home, plan, choose_target(args.target, home), need_drafter(args.drafter, home)):
        rows.append(dataclasses.asdict(row))
        print(json.dumps(rows[-1]) if args.json else workers.line(row), flush=True)
        if args.out:
            write_atomically(args.out, json.dumps({"rows": rows}, indent=1).encode())
    return 0


def _delays(text: str) -> list[float]:
    try:
        delays = [float(part) for part in text.split(",")]
    except ValueError:
        delays = [-1.0]
    if not all(0 <= delay <= 1000 for delay in delays):
        raise SettingsError(f"--delays takes milliseconds from 0 to 1000 with commas between them, not {text[:40]!r}.")
    return delays
