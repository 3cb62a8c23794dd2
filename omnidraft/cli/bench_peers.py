"""`bench peers`: arguments, the run, and its tables as Markdown and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench.columns import columns
from omnidraft.bench.peers.plan import EDIT, PEERS, Plan
from omnidraft.bench.peers.server_build import build_server, server_path
from omnidraft.bench.regimes import GGUFS
from omnidraft.errors import StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.processes.cores import physical_cores
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome, find_data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="tiny-target-a")
    parser.add_argument("--drafter")
    parser.add_argument(
        "--helper", default="tiny-target-a2", help="a small model of the target's vocabulary for draft-simple, or none"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--tasks", default=",".join((*TASKS, EDIT)), help="names, or files of prompts, with commas")
    parser.add_argument("--data", type=Path, help="a folder of TASK.jsonl to take the place of the bundled prompts")
    parser.add_argument("--from", type=Path, dest="recorded", metavar="FILE",
                        help="learn from the answers that another run with this --json or --out FILE kept")  # fmt: skip
    parser.add_argument("--temperature", default="0,default,1", help="numbers and default with commas")
    parser.add_argument("--regime", default="0.5b-F32", help=f"of {', '.join(GGUFS)}")
    parser.add_argument("--drafter-shape", metavar="SHAPE", help="own: the drafter as it is; default: the regime's")
    parser.add_argument("--prompts", type=int, default=Plan.prompts, help="per task")
    parser.add_argument("--max-tokens", type=int, default=Plan.max_tokens)
    parser.add_argument("--learn-prompts", type=int, default=Plan.learn_prompts, help="per task; 0: nothing is learned")
    parser.add_argument("--learn-tokens", type=int, default=Plan.learn_tokens, help="longest answer to learn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the numbers here; what FILE.cells holds is not run again"
    )
    parser.add_argument("--server", type=Path, metavar="PROGRAM", help="llama.cpp's llama-server")
    parser.add_argument(
        "--build-server", action="store_true", help="build it from llama-cpp-python's source, got by pip, and end"
    )
    parser.add_argument("--source", type=Path, metavar="ARCHIVE", help="build it from this archive")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at a time")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if args.build_server:
        print(build_server(home, args.source, args.jobs, _told))
        return 0
    if args.out is None or not args.out.parent.is_dir():
        raise StorageError("bench peers needs --out FILE, in a folder that is there.")
    from omnidraft.bench.peers import report
    from omnidraft.bench.peers.programs import openings
    from omnidraft.bench.peers.run import run as compare

    plan, folder = _plan(args, home), args.out.with_suffix(".cells")
    for found in compare(plan, folder, lambda: openings(home, plan, folder, _told), _told):
        values = report.as_json(found, plan.decides())
        write_atomically(args.out, json.dumps(values, indent=1).encode())
    if args.json:
        print(json.dumps(values))
    else:
        print(*report.markdown(found, plan.decides()), sep="\n")
    return 0


def _plan(args: argparse.Namespace, home: DataHome) -> Plan:
    return Plan(
        target=choose_target(args.target, home),
        drafter=need_drafter(args.drafter, home),
        helper=None if args.helper == "none" else choose_target(args.helper, home),
        server=args.server or server_path(home),
        peers=args.peers.split(","),
        tasks=args.tasks.split(","),
        columns=columns(args.temperature),
        regime=args.regime,
        prompts=args.prompts,
        max_tokens=args.max_tokens,
        learn_prompts=args.learn_prompts,
        learn_tokens=args.learn_tokens,
        seed=args.seed,
        threads=args.threads or physical_cores(),
        data=args.data,
        drafter_shape=args.drafter_shape,
        recorded=args.recorded.with_suffix(".cells") if args.recorded else None,
    )


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
