"""`bench idle` and `first-session`: what learning costs the one who waits, and what it brings a new user."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import first_session, idle
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.topics import TOPICS
from omnidraft.storage.paths import find_data_home


def add_idle(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--target", default="tiny-target-a")
    sub.add_argument("--drafter")
    sub.add_argument("--what", default="train,steps,swaps,slowdown", help="of train, steps, swaps, slowdown")
    sub.add_argument("--dtypes", default="Q8_0,F16", help="of the drafter at the 68M shape")
    sub.add_argument("--regime", default="0.5b-Q8_0", help="the pair that generates")
    sub.add_argument("--pairs", type=int, default=12, help="answers with and without learning")
    sub.add_argument("--max-tokens", type=int, default=48)
    sub.add_argument("--threads", type=int, default=0)
    sub.set_defaults(bench=_idle)


def add_first_session(sub: argparse.ArgumentParser) -> None:
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
