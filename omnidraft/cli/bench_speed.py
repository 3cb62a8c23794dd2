"""`bench speed`, `costs` and `first-token`: what takes how long, with and without a drafter."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import costs, first_token, speed
from omnidraft.bench.cells import as_json, line, summary
from omnidraft.bench.columns import COLUMNS, columns
from omnidraft.bench.regimes import REGIMES
from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.config import DraftSettings, ModelSettings
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import find_data_home


def add_speed(sub: argparse.ArgumentParser) -> None:
    _add_models(sub)
    sub.add_argument("--drafters", default="given", help="given, random, or both with a comma")
    sub.add_argument("--drafter-shape", metavar="SHAPE", help="own: the drafter as it is; default: the regime's")
    sub.add_argument("--tasks", default=",".join(TASKS))
    sub.add_argument("--methods", default="plain,lookup,fixed:4,gamma:0.3,adaptive")
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


def add_costs(sub: argparse.ArgumentParser) -> None:
    _add_models(sub)
    sub.add_argument("--threads", type=int, default=0)
    _add_spread(sub)
    sub.set_defaults(bench=_costs)


def add_first_token(sub: argparse.ArgumentParser) -> None:
    _add_models(sub)
    sub.add_argument("--prompt-tokens", type=int, default=500)
    sub.add_argument("--repeats", type=int, default=7)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_first_token)


def _add_models(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--target", nargs="+", default=["tiny-target-a", "tiny-target-b"])
    sub.add_argument("--drafter")
    sub.add_argument("--regimes", default="bundled", help=f"of {', '.join(REGIMES)}")


def _add_spread(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--workers", help="host:port of workers that hold layers of the target, with commas between")
    sub.add_argument("--split", help="shares of the layers with commas, this machine first (default: free memory)")


def _loading(args: argparse.Namespace) -> ModelSettings:
    return ModelSettings(threads=args.threads, workers=args.workers, split=args.split)


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
        drafter_shape=args.drafter_shape,
    )
    targets = [choose_target(name, home) for name in args.target]
    cells = []
    for cell in speed.run(home, plan, targets, need_drafter(args.drafter, home)):
        cells.append(cell)
        print(json.dumps(dataclasses.asdict(cell)) if args.json else line(cell), flush=True)
        if args.out:
            write_atomically(args.out, json.dumps(as_json(cells), indent=1).encode())
    if not args.json:
        print(*summary(cells), sep="\n")
    return 0


def _drafters(text: str) -> list[str]:
    kinds = text.split(",")
    if not set(kinds) <= {"given", "random"}:
        raise SettingsError(f"--drafters takes given, random, or both with a comma, not {text[:40]!r}.")
    return kinds


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
