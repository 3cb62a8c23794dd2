"""`bench`: what the project claims about itself, measured on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import cache, calibration, costs, first_session, first_token, idle, overhead, speed
from omnidraft.bench.cells import as_json, line, summary
from omnidraft.bench.columns import COLUMNS, columns
from omnidraft.bench.regimes import REGIMES
from omnidraft.cli import bench_paper, bench_peers, bench_workers, drift, learn
from omnidraft.config import DraftSettings, ModelSettings
from omnidraft.errors import ModelError, SettingsError, StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.lab.topics import TOPICS
from omnidraft.paths import find_data_home


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
    _add_speed(kinds)
    _add_costs(kinds)
    _add_first_token(kinds)
    sub = _kind(kinds, "calibration", "how honest the acceptance head is")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a"])
    sub.add_argument("--drafter")
    sub.add_argument("--tasks", default=",".join(TASKS))
    sub.add_argument("--prompts", type=int, default=20)
    sub.add_argument("--temperature", type=float, default=0.0)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_calibration)
    sub = _kind(kinds, "idle", "what learning costs the one who waits: pauses, swaps, steps, generation beside it")
    sub.add_argument("--target", default="tiny-target-a")
    sub.add_argument("--drafter")
    sub.add_argument("--what", default="train,steps,swaps,slowdown", help="of train, steps, swaps, slowdown")
    sub.add_argument("--dtypes", default="Q8_0,F16", help="of the drafter at the 68M shape")
    sub.add_argument("--regime", default="0.5b-Q8_0", help="the pair that generates")
    sub.add_argument("--pairs", type=int, default=12, help="answers with and without learning")
    sub.add_argument("--max-tokens", type=int, default=48)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_idle)
    _add_first_session(kinds)
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


def _add_costs(kinds) -> None:
    sub = _kind(kinds, "costs", "what passes of several widths and a draft step take with these models")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    sub.add_argument("--drafter")
    sub.add_argument("--regimes", default="bundled", help=f"of {', '.join(REGIMES)}")
    sub.add_argument("--threads", type=int, default=0)
    _add_spread(sub)
    sub.set_defaults(bench=_costs)


def _add_first_token(kinds) -> None:
    sub = _kind(kinds, "first-token", "the wait for the first token, with and without a drafter")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    sub.add_argument("--drafter")
    sub.add_argument("--regimes", default="bundled", help=f"of {', '.join(REGIMES)}")
    sub.add_argument("--prompt-tokens", type=int, default=500)
    sub.add_argument("--repeats", type=int, default=7)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_first_token)


def _add_spread(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--workers", help="host:port of workers that hold layers of the target, with commas between")
    sub.add_argument("--split", help="shares of the layers with commas, this machine first (default: free memory)")


def _loading(args: argparse.Namespace) -> ModelSettings:
    return ModelSettings(threads=args.threads, workers=args.workers, split=args.split)


def _add_first_session(kinds) -> None:
    sub = _kind(kinds, "first-session", "a new user's first answers, updates included, against plain decoding")
    sub.add_argument("--target", default=None, help="the bundled one unless told otherwise")
    sub.add_argument("--drafter")
    sub.add_argument("--topic", default=first_session.Plan.topic, help=f"a prompt file, or of {', '.join(TOPICS)}")
    sub.add_argument("--prompts", type=int, default=40, help="answers while the drafter learns")
    sub.add_argument("--after", type=int, default=20, help="answers behind that")
    sub.add_argument("--busy", type=int, default=0, metavar="N", help="processes that compute beside the first ten")
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_first_session)


def _first_session(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if args.prompts < 1 or args.after < 1 or args.busy < 0:
        raise SettingsError("--prompts and --after must be at least 1, --busy at least 0.")
    drafter = need_drafter(args.drafter, home)
    if drafter is None:
        raise ModelError("No drafter was found; name one with --drafter.")
    plan = first_session.Plan(
        choose_target(args.target, home), drafter, args.topic, args.prompts, args.after, args.busy, args.seed,
        args.threads,
    )  # fmt: skip
    found = first_session.run(plan, lambda line: print(line, file=sys.stderr, flush=True))
    print(*([json.dumps(found)] if args.json else first_session.lines(found)), sep="\n")
    return 0


def _add_speed(kinds) -> None:
    sub = _kind(kinds, "speed", "methods against plain decoding, interleaved")
    sub.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    sub.add_argument("--drafter")
    sub.add_argument("--drafters", default="given", help="given, random, or both with a comma")
    sub.add_argument("--tasks", default=",".join(TASKS))
    sub.add_argument("--methods", default="plain,lookup,fixed:4,gamma:0.3,adaptive")
    sub.add_argument("--regimes", default="bundled", help=f"of {', '.join(REGIMES)}")
    sub.add_argument("--compare", default="", help="fixed lengths to hold adaptive against by counting: 1,2,3,4,6,8")
    sub.add_argument("--temperature", default=COLUMNS, help="numbers and default with commas: the columns")
    sub.add_argument("--prompts", type=int, default=6)
    sub.add_argument("--repeats", type=int, default=1, help="of everything; each prompt's median speedup counts")
    sub.add_argument("--max-tokens", type=int, default=64)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--threads", type=int, default=0)
    _add_spread(sub)
    sub.add_argument("--out", type=Path, help="write all cells to this JSON file")
    sub.set_defaults(bench=_speed)


def run(args: argparse.Namespace) -> int:
    return args.bench(args)


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


def _drafters(text: str) -> list[str]:
    kinds = text.split(",")
    if not set(kinds) <= {"given", "random"}:
        raise SettingsError(f"--drafters takes given, random, or both with a comma, not {text[:40]!r}.")
    return kinds


def _speed(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if args.prompts < 1:
        raise SettingsError(f"--prompts is {args.prompts}, but must be at least 1.")
    if args.repeats < 1:
        raise SettingsError(f"--repeats is {args.repeats}, but must be at least 1.")
    if args.out and not args.out.parent.is_dir():
        raise StorageError(f"There is no folder {args.out.parent} to write {args.out.name} to.")
    plan = speed.Plan(
        tasks=args.tasks.split(","),
        methods=args.methods.split(","),
        temperatures=columns(args.temperature),
        regimes=args.regimes.split(","),
        drafters=_drafters(args.drafters),
        prompts=args.prompts,
        max_tokens=args.max_tokens,
        seed=args.seed,
        model=_loading(args),
        compared=_lengths(args.compare),
        repeats=args.repeats,
    )
    targets = [choose_target(name, home) for name in args.target]
    cells = []
    for cell in speed.run(home, plan, targets, need_drafter(args.drafter, home)):
        cells.append(cell)
        print(json.dumps(dataclasses.asdict(cell)) if args.json else line(cell), flush=True)
        if args.out:
            args.out.write_text(json.dumps(as_json(cells), indent=1))
    if not args.json:
        print(*summary(cells), sep="\n")
    return 0


def _lengths(text: str) -> list[int]:
    """Draft lengths with commas between them; none for an empty text."""
    try:
        return [DraftSettings(mode="fixed", length=int(part)).length for part in text.split(",") if part]
    except ValueError:
        raise SettingsError(f"--compare takes draft lengths with commas between them, not {text[:40]!r}.") from None


def _costs(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    drafter = need_drafter(args.drafter, home)
    for name in args.target:
        for regime in args.regimes.split(","):
            cost, seconds = costs.measure(home, regime, choose_target(name, home), drafter, _loading(args))
            if args.json:
                print(json.dumps({"target": name, "regime": regime, "seconds": seconds, **cost.as_dict()}))
                continue
            one = cost.passes[1]
            widths = "  ".join(f"C({n}) {s / one:.2f}" for n, s in sorted(cost.passes.items()))
            print(
                f"{name} {regime}: one token {one * 1e3:.2f} ms, {widths}, draft step {cost.step * 1e3:.2f} ms "
                f"(measured in {seconds:.2f} s)"
            )
    return 0


def _first_token(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if args.prompt_tokens < 1 or args.repeats < 1:
        raise SettingsError("--prompt-tokens and --repeats must be at least 1.")
    drafter = need_drafter(args.drafter, home)
    for name in args.target:
        for regime in args.regimes.split(","):
            found = first_token.measure(
                home, regime, choose_target(name, home), drafter, args.prompt_tokens, args.repeats, args.threads
            )
            if args.json:
                print(json.dumps(dataclasses.asdict(found)))
                continue
            low, high = found.ratio_range
            print(
                f"{found.target} {regime}: {found.prompt_tokens} prompt tokens, plain {found.plain * 1e3:.1f} ms, "
                f"with drafter {found.drafted * 1e3:.1f} ms, ratio {found.ratio:.3f} [{low:.3f}, {high:.3f}]"
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


def _idle(args: argparse.Namespace) -> int:
    home, wanted = find_data_home(args.data_dir), args.what.split(",")
    drafter = need_drafter(args.drafter, home)
    with tempfile.TemporaryDirectory() as own:
        shop = idle.Workshop(home, find_data_home(own), choose_target(args.target, home), drafter, args.threads)
        version, trained = shop.train(pauses=10)
        if "train" in wanted:
            _show(args, "train", trained)
        for dtype in args.dtypes.split(","):
            for name, measure in (("steps", idle.steps), ("swaps", idle.swaps)):
                if name in wanted:
                    _show(args, name, measure(shop, version, dtype))
        if "slowdown" in wanted:
            _show(args, "slowdown", idle.slowdown(shop, args.regime, args.pairs, args.max_tokens))
    return 0


def _show(args: argparse.Namespace, name: str, facts: dict[str, object]) -> None:
    line = "  ".join(f"{key} {value}" for key, value in facts.items())
    print(json.dumps({"what": name, **facts}) if args.json else f"{name:9} {line}", flush=True)


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
