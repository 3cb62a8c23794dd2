"""Where the draft ends: a fixed length or a learned head, with a drafter that has or has not learned (Table 2).

The head predicts whether a proposal will be accepted, and drafting stops by the paper's gamma rule. Joint: the head
learns from every proposal at once; interleaved: from a bounded store of them. It is new in each condition, learns on
training prompts first and goes on learning, as it would in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.bench.learn import Told
from omnidraft.bench.learn_plan import choose
from omnidraft.bench.learn_tester import DRAFT, Tester
from omnidraft.bench.paper.learned import adapter_of
from omnidraft.bench.paper.machines import PAPER, projected
from omnidraft.bench.paper.ngrams import recorded
from omnidraft.bench.paper.plan import Plan
from omnidraft.decoding.acceptance import AcceptanceHead
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.engine import Memory
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.trace import Trace
from omnidraft.settings.config import DraftSettings

WARM_UP = 16  # prompts the head learns on first
GAMMA = DraftSettings(mode="gamma", gamma=0.3, lookup=False)
GAMMA_HIGH = DraftSettings(mode="gamma", gamma=0.7, lookup=False)
STRICT = ("math", "code")  # where the paper takes gamma 0.7


@dataclass(frozen=True, slots=True)
class Condition:
    """head: how it learns, None for a fixed draft length; taught: with the adapter."""

    name: str
    head: str | None
    taught: bool


CONDITIONS = (
    Condition("neither", None, False),
    Condition("adapt only", "joint", False),
    Condition("distill only", None, True),
    Condition("joint", "joint", True),
    Condition("interleaved", "interleaved", True),
)


def adapting(plan: Plan, folder: Path, maps: Path, told: Told) -> dict[str, list[dict]]:
    """A row for each task of one target and condition, at temperature 0, with the speedup projected as in the paper."""
    side, rows = plan.side(), []
    with Tester(side.targets[0], side.drafter, maps, side.threads) as tester:
        cache = tester.cache_after(recorded(side, folder))
        for task in side.tasks:
            prompts = choose(side, task, 0)
            adapter = adapter_of(folder, side.targets[0], task)
            for condition in CONDITIONS:
                if condition.taught and not adapter.exists():
                    continue  # no update was let through
                told(f"adapting: {prompts.task}, {condition.name}")
                tester.draft_with(cache, adapter if condition.taught else None)
                traces = _traces(tester, condition, prompts.train[:WARM_UP], prompts.test, side.test_tokens)
                rows.append({"target": side.targets[0].stem, "task": prompts.task, "condition": condition.name}
                            | counted(traces))  # fmt: skip
    return {"rows": rows}


def _traces(
    tester: Tester, condition: Condition, first: Sequence[Prompt], test: Sequence[Prompt], max_tokens: int
) -> list[Trace]:
    if condition.head is None:
        return list(tester.traces(test, 0.0, max_tokens, 7, DRAFT))
    knowledge = Knowledge(CostModel({1: 1e-3}, 1e-4), head=AcceptanceHead(condition.head))
    tester.engine.memory = Memory({"greedy": knowledge, "sampled": knowledge})
    draft = GAMMA_HIGH if test[0].task in STRICT else GAMMA
    for _ in tester.traces(first, 0.0, max_tokens, 3, draft):
        pass
    found = list(tester.traces(test, 0.0, max_tokens, 7, draft))
    tester.engine.memory = Memory()
    return found


def counted(traces: Sequence[Trace]) -> dict:
    rounds = [done for trace in traces for done in trace.rounds]
    proposed, tokens = sum(r.proposed for r in rounds), sum(r.emitted for r in rounds)
    drafted, widths = sum(r.drafted for r in rounds), Counter(r.proposed + 1 for r in rounds)
    return {
        "acceptance": sum(r.accepted for r in rounds) / max(proposed, 1),
        "tokens_per_pass": tokens / max(len(rounds), 1),
        "drafted_per_pass": drafted / max(len(rounds), 1),
        "projected": projected(PAPER, tokens, drafted, widths),
        "answers": len(traces),
    }
