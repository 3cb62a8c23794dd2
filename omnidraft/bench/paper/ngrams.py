"""The tables about the n-gram cache: its worth without training, eviction, growth and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np

from omnidraft.bench import cache as worth
from omnidraft.bench import learn_answers
from omnidraft.bench import learn_stats as stats
from omnidraft.bench.learn import Told
from omnidraft.bench.learn_plan import LearnPlan, choose, label
from omnidraft.bench.learn_tester import Tester
from omnidraft.bench.paper.learned import adapter_of
from omnidraft.bench.paper.plan import Plan
from omnidraft.learning.material.record import Record
from omnidraft.settings.config import CacheSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab.ngram_cache import NgramCache

SHARES = (0.25, 0.5)
POLICIES = ("lru", "lfu", "lfu-aging")
EMPTY = CacheSettings(seed=False)
_DRAFTERS = ("as it came", "taught")


def untrained(plan: Plan, home: DataHome, told: Told) -> dict[str, list[dict]]:
    """Acceptance at draft length 4 by the direct map, with an empty and with a seeded cache; temperature 0."""
    learned, rows = plan.learned, []
    for target in learned.targets:
        told(f"cache without training: {target.stem}")
        found = worth.measure(
            home, target, learned.drafter, learned.test_prompts, learned.test_tokens, 0.0, learned.threads
        )
        rows += [asdict(row) for row in found]
    return {"rows": rows}


def recorded(plan: LearnPlan, folder: Path) -> list[Record]:
    """The answers that the methods' cells of the plan's first target and seed 0 learned from, task after task."""
    target, found = plan.targets[0].stem, []
    for task in plan.tasks:
        name = f"{target}-{label(task)}-s0-{choose(plan, task, 0).digest}.answers"
        found += learn_answers.read(folder / name)
    return found


def eviction(plan: Plan, folder: Path, maps: Path, told: Told) -> dict[str, list[dict]]:
    """Caches that started empty and saw the same answers, at a share of what they then hold, frozen at the test; draft
    length 4, temperature 0. drafter: as it came, or taught the task of the prompt. of_full: tokens a pass over the full
    cache's with the same drafter, prompts in pairs."""
    side = plan.side()
    records = recorded(side, folder)
    with Tester(side.targets[0], side.drafter, maps, side.threads) as tester:
        full = tester.cache_after(records, EMPTY)
        kinds: list[tuple[str, NgramCache | None]] = [("no cache", None)]
        for share, policy, settings in _settings(len(full)):
            kinds.append((f"{share:g} of it, {policy}", tester.cache_after(records, settings)))
        kinds.append(("full", full))
        counts, rows = {}, []
        for taught in (False, True):
            for name, cache in kinds:
                told(f"eviction: {name}, {_DRAFTERS[taught]}")
                counts[taught, name] = _asked(tester, side, folder, cache, taught)
                entries = len(cache) if cache is not None else 0
                rows.append({"cache": name, "drafter": _DRAFTERS[taught], "entries": entries})
            for row in rows[-len(kinds) :]:
                row |= _compared(counts[taught, str(row["cache"])], counts[taught, "full"])
    return {"rows": rows}


def _asked(tester: Tester, side: LearnPlan, folder: Path, cache: NgramCache | None, taught: bool) -> stats.Counts:
    """Counts of all tasks' test prompts; where nothing was learned on a task the drafter stays as it came."""
    found = []
    for task in side.tasks:
        adapter = adapter_of(folder, side.targets[0], task) if taught else None
        if adapter is not None and not adapter.exists():
            adapter = None
        found += tester.ask(choose(side, task, 0).test, 0.0, side.test_tokens, 7, cache, adapter)
    return [np.array([astuple(one)[:4] for one in found], float)]


def _settings(entries: int) -> Iterator[tuple[float, str, CacheSettings]]:
    for share in SHARES:
        for policy in POLICIES:
            yield share, policy, CacheSettings(seed=False, capacity=max(1, round(share * entries)), policy=policy)


def _compared(counts: stats.Counts, full: stats.Counts) -> dict:
    both = {"it": counts, "full": full}
    share = stats.compare(both, lambda s: stats.per_pass(s["it"]) / stats.per_pass(s["full"]))
    return {"acceptance": asdict(stats.rate(counts)), "tokens_per_pass": asdict(stats.tokens_per_pass(counts)),
            "of_full": asdict(share)}  # fmt: skip


def growth(plan: Plan, folder: Path, maps: Path, told: Told) -> dict[str, list[dict]]:
    """n-grams and bytes after 1, 2, 4, ... answers, of a cache that starts empty and has room."""
    side = plan.side()
    records = recorded(side, folder)
    told("growth of the cache")
    stops = sorted({1 << i for i in range(len(records).bit_length()) if 1 << i <= len(records)} | {len(records)})
    with Tester(side.targets[0], side.drafter, maps, side.threads) as tester:
        return {"rows": [_size(tester, records[:stop]) for stop in stops]}


def _size(tester: Tester, records: Sequence[Record]) -> dict:
    facts = tester.cache_after(records, EMPTY).stats()
    tokens = sum(len(record.targets) for record in records)
    return {"answers": len(records), "tokens": tokens, "entries": facts["entries"], "bytes": facts["bytes"]}
