"""`bench paper`: makes the tables one after another and keeps each in a file, so that a run can be interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from omnidraft.bench.learn import Told
from omnidraft.bench.paper import adapting, learned, ngrams, timed
from omnidraft.bench.paper.plan import Plan, estimate
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.settings.config import DraftSettings
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome

_PROBE = Prompt("probe", "qa", None, ({"role": "user", "content": "What is a river?"},))


def run(plan: Plan, folder: Path, home: DataHome, told: Told) -> Iterator[dict[str, dict]]:
    """All tables so far, whenever one is finished. Those that build on cells of the methods wait for them."""
    _same_plan(plan, folder)
    cells, maps = folder / "methods", home.cache
    makers: dict[str, Callable[[], dict]] = {
        "methods": lambda: learned.methods(plan, cells, maps, told),
        "losses": lambda: learned.losses(plan, cells, maps, told),
        "ranks": lambda: learned.ranks(plan, folder, cells, maps, told),
        "cache": lambda: ngrams.untrained(plan, home, told),
        "eviction": lambda: ngrams.eviction(plan, cells, maps, told),
        "growth": lambda: ngrams.growth(plan, cells, maps, told),
        "adapting": lambda: adapting.adapting(plan, cells, maps, told),
        "speed": lambda: timed.speedups(plan, cells, home, told),
        "sizes": lambda: timed.sizes(plan, home, told),
    }
    wanted = [name for name in makers if name in plan.tables]
    missing = [name for name in wanted if not (folder / f"{name}.json").exists()]
    if {"eviction", "growth", "adapting", "speed"} & set(missing) and not (folder / "methods.json").exists():
        wanted = ["methods", *(name for name in wanted if name != "methods")]
        missing = [name for name in wanted if not (folder / f"{name}.json").exists()]
    if missing:
        told(_announced(plan, missing, home))
    tables: dict[str, dict] = {}
    for name in wanted:
        path = folder / f"{name}.json"
        if name in missing:
            told(f"table: {name}")
            write_atomically(path, json.dumps(makers[name]()).encode())
        tables[name] = json.loads(path.read_bytes())
        yield tables


def _announced(plan: Plan, missing: list[str], home: DataHome) -> str:
    """How long it will take, by what a token takes now."""
    from omnidraft.bench.learn_tester import Tester

    first = plan.learned
    with Tester(first.targets[0], first.drafter, home.cache, first.threads) as tester:
        tester.draft_with(None, None)
        begun, tokens = time.perf_counter(), 0
        for trace in tester.traces([_PROBE] * 2, 0.0, 32, 1, DraftSettings(enabled=False)):
            tokens += trace.tokens
    parts = estimate(plan, (time.perf_counter() - begun) / max(tokens, 1))
    minutes = {name: seconds / 60 for name, seconds in parts.items() if name in missing}
    each = ", ".join(f"{name} {value:.1f}" for name, value in minutes.items())
    return f"This takes about {sum(minutes.values()):.0f} minutes on a quiet machine ({each}); it can be interrupted."


def _same_plan(plan: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path, asked = folder / "plan.json", json.loads(json.dumps(plan.decides()))
    before = json.loads(path.read_bytes()) if path.exists() else asked
    if differ := [name for name in asked if before.get(name) != asked[name]]:
        raise SettingsError(f"{folder} holds a run with other {', '.join(differ)}; name another --out file.")
    write_atomically(path, json.dumps(asked, indent=1).encode())
