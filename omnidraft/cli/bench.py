"""`bench`: what the project claims about itself, measured on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
from types import FrameType

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import cache, calibration, overhead
from omnidraft.cli import bench_learning, bench_paper, bench_peers, bench_speed, bench_workers, drift, learn
from omnidraft.lab.prompts import TASKS
from omnidraft.storage.paths import find_data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    sub = _kind(kinds, "overhead", "time spent outside the models at a 128k vocabulary")
    sub.add_argument("--tokens", type=int, default=400)
    sub.set_defaults(bench=_overhead)
    sub = _kind(kinds, "cache", "acceptance by direct map alone, with an empty and with a seeded n-gram cache")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    sub.add_argument("--drafter")
    sub.add_argument("--prompts", type=int, default=20, help="prompts per task")
    sub.add_argument("--max-tokens", type=int, default=64)
    sub.add_argument("--temperature", type=float, default=0.0)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_cache)
    bench_speed.add_speed(_kind(kinds, "speed", "methods against plain decoding, interleaved"))
    bench_speed.add_costs(
        _kind(kinds, "costs", "what passes of several widths and a draft step take with these models")
    )
    bench_speed.add_first_token(_kind(kinds, "first-token", "the wait for the first token, with and without a drafter"))
    sub = _kind(kinds, "calibration", "how honest the acceptance head is")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a"])
    sub.add_argument("--drafter")
    sub.add_argument("--tasks", default=",".join(TASKS))
    sub.add_argument("--prompts", type=int, default=20)
    sub.add_argument("--temperature", type=float, default=0.0)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_calibration)
    bench_learning.add_idle(
        _kind(kinds, "idle", "what learning costs the one who waits: pauses, swaps, steps, generation beside it")
    )
    bench_learning.add_first_session(
        _kind(kinds, "first-session", "a new user's first answers, updates included, against plain decoding")
    )
    sub = _kind(kinds, "drift", "acceptance and speed while tasks or targets change")
    drift.add_arguments(sub)
    sub.set_defaults(bench=drift.run)
    learn.add_kind(kinds)
    sub = _kind(kinds, "paper", "the published tables, made with these models")
    bench_paper.add_arguments(sub)
    sub.set_defaults(bench=bench_paper.run)
    sub = _kind(kinds, "peers", "other programs and ours on the same weights and prompts, each against its own plain")
    bench_peers.add_arguments(sub)
    sub.set_defaults(bench=bench_peers.run)
    bench_workers.add_arguments(_kind(kinds, "workers", "a target over workers at several delays against one process"))


def run(args: argparse.Namespace) -> int:
    before = signal.signal(signal.SIGTERM, _interrupt)  # the processes that a measurement started are ended, too
    try:
        return args.bench(args)
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _kind(kinds, name: str, text: str) -> argparse.ArgumentParser:
    sub = kinds.add_parser(name, help=text, description=text.capitalize() + ".")
    sub.add_argument("--data-dir", default=argparse.SUPPRESS, help="where this program keeps its data")
    sub.add_argument("--json", action="store_true", help="one JSON object per line")
    return sub


def _overhead(args: argparse.Namespace) -> int:
    for temperature in (0.0, 1.0):
        found = overhead.measure(temperature, args.tokens)
        if args.json:
            print(json.dumps(dataclasses.asdict(found)))
        else:
            print(
                f"T = {found.temperature:g}: {found.rounds} rounds, {found.positions} positions, "
                f"{found.total_ms:.0f} ms outside the models = {found.share:.0%} of the budget "
                f"({overhead.ROUND_MS} ms a round + {overhead.POSITION_MS} ms a position); "
                f"a round by quarters of the answer: {', '.join(f'{q:.0f}' for q in found.quarters)} us"
            )
    return 0


def _calibration(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    drafter = need_drafter(args.drafter, home)
    for name in args.target:
        for mode in ("joint", "interleaved"):
            found = calibration.measure(
                home, choose_target(name, home), drafter, args.tasks.split(","), args.prompts, args.temperature, mode,
                args.threads,
            )  # fmt: skip
            if args.json:
                print(json.dumps({"target": name, **dataclasses.asdict(found)}))
                continue
            print(f"{name} T = {found.temperature:g} {mode}: {found.proposals} proposals, Brier {found.brier:.3f} "
                  f"(always the mean: {found.base:.3f})")  # fmt: skip
            for b in found.bins:
                said = f"said {b.low:.1f}-{b.high:.1f}"
                print(f"  {said}: {b.count:5} times, mean {b.predicted:.2f}, was {b.accepted:.2f}")
    return 0


def _cache(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    drafter = need_drafter(args.drafter, home)
    for name in args.target:
        for row in cache.measure(
            home, choose_target(name, home), drafter, args.prompts, args.max_tokens, args.temperature, args.threads
        ):
            if args.json:
                print(json.dumps(dataclasses.asdict(row)))
            else:
                print(
                    f"{row.target:16} {row.task:9} {row.cache:12} acceptance {row.acceptance_rate:.3f}  "
                    f"tokens per pass {row.tokens_per_pass:.2f}"
                )
    return 0
