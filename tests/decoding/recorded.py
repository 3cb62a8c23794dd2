"""The decision on real answers and real machines: `python -m tests.decoding.recorded` prints how it does.

What the drafter drafts, how sure it is, what the target says and what could be copied are recorded (record.py), five
answers of 80 tokens to each task at T = 0; what passes take is a table of `bench passes`. Only time is simulated. A
cell of the table is the app's speed over plain decoding, and that of the best fixed length, chosen afterwards.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from omnidraft.decoding.depth import AdaptiveDepth
from omnidraft.decoding.drafting import PLAIN, FixedLength, LengthPolicy
from omnidraft.decoding.lookup import NO_MATCH, SuffixLookup
from omnidraft.lab.prompts import TASKS
from omnidraft.vocab import Proposal
from tests.decoding.simulation import Machine, Outcome

RECORDINGS = Path(__file__).parent / "recordings"
# Seconds of a draft step: by itself, which the decision is told; behind a pass, which pushes the weights out of the
# caches; and behind another step.
ALONE, FIRST, LATER = 0.4e-3, 1.4e-3, 0.9e-3


@dataclass(frozen=True)
class Target:
    """A target on two cores with AVX-512, and what passes over so many rows take, in milliseconds."""

    name: str
    passes: dict[int, float]

    def machine(self, seed: int) -> Machine:
        passes = {rows: ms / 1e3 for rows, ms in self.passes.items()}
        return Machine(passes, LATER, [], seed, catching_up=True, first=FIRST - LATER)


TARGETS = (
    Target("SmolLM2-135M-Instruct-Q4_1", {1: 5.2, 2: 5.7, 3: 6.3, 4: 7.1, 5: 7.7, 8: 10.6, 16: 17.9}),
    Target("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", {1: 16.4, 2: 17.7, 3: 18.7, 4: 21.6, 5: 21.6, 8: 24.8, 16: 41.9}),
    Target("Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", {1: 30.9, 2: 34.6, 3: 42.4, 4: 46.2, 5: 49.2, 8: 59.9, 16: 107.2}),
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """drafts: at each token behind the first, how sure the drafter was of each piece (log q, entropy), and what the
    pieces came to."""

    task: str
    prompt: list[int]
    ids: list[int]
    drafts: list[tuple[list[tuple[float, float]], list[Proposal]]]


@cache
def answers(name: str) -> list[Answer]:
    data = json.loads(gzip.decompress((RECORDINGS / f"{name}.json.gz").read_bytes()))
    read = [
        [([(q / 100, h / 100) for q, h in pieces], [Proposal(t, o, n, at) for t, at, n, o in proposals])
         for pieces, proposals in drafts]
        for drafts in data["drafts"]
    ]  # fmt: skip
    return [Answer(*one) for one in zip(data["tasks"], data["prompts"], data["answers"], read, strict=True)]


class Recorded:
    """Says what was recorded at the present token, as a translator does."""

    def __init__(self) -> None:
        self.proposals: list[Proposal] = []

    def segment(self, pieces, **_):
        return [p for p in self.proposals if p.start + max(p.pieces, 1) <= len(pieces)]


def logits(log_q: float, entropy: float) -> np.ndarray:
    """A row of 16 ids, the first as likely as said, the others so that the entropy is about right."""
    q = min(np.exp(log_q), 1 - 1e-6)
    alike = (entropy + q * log_q) / (1 - q) + np.log(1 - q)  # log of how many others, all equally likely
    others = int(np.clip(round(np.exp(min(alike, 5.0))), 1, 15))
    row = np.full(16, -30.0)
    row[0], row[1 : 1 + others] = log_q, np.log((1 - q) / others)
    return row


class Player:
    """Answers of a recording with one way of deciding."""

    def __init__(self, machine: Machine, translator: Recorded) -> None:
        self.machine, self.translator, self.lookup = machine, translator, SuffixLookup()

    def play(self, policy: LengthPolicy, answer: Answer) -> Outcome:
        self.lookup.begin(answer.prompt)
        self.lookup.extend(answer.ids[:1])
        self.machine.unread = len(answer.prompt) // 8  # most of it was said before
        at, passes, seconds, drafting = 1, 0, 0.0, 0.0
        while at < len(answer.ids):
            drafted, proposals = self._guess(policy, answer, at)
            said = answer.ids[at:]
            right = [p.target_id == one for p, one in zip(proposals, said, strict=False)]
            kept = min(next((i for i, ok in enumerate(right) if not ok), len(right)), len(said) - 1)
            copied = sum(p.origin == "lookup" for p in proposals)
            done = self.machine.timed(drafted, len(proposals), kept, copied)
            policy.observe(done, proposals, said[0])
            self.lookup.extend(said[: kept + 1])
            at, passes = at + kept + 1, passes + 1
            seconds, drafting = seconds + done.draft + done.verify, drafting + done.draft
        policy.finish()
        return Outcome(len(answer.ids) - 1, seconds, drafting, passes)

    def _guess(self, policy: LengthPolicy, answer: Answer, at: int) -> tuple[int, list[Proposal]]:
        room, copies = len(answer.ids) - at - 1, isinstance(policy, AdaptiveDepth)
        if room <= 0 or (policy.rests and not (copies and self.lookup.finds)):
            return 0, []
        match = self.lookup.propose(room) if copies else NO_MATCH
        begun = policy.begin(1 + self.machine.unread, match)
        if begun > 0:
            return 0, [Proposal(t, "lookup", 0, 0) for t in match.ids[:begun]]
        if begun == PLAIN:
            return 0, []
        sure, self.translator.proposals = answer.drafts[at - 1]
        pieces: list[int] = []
        while len(pieces) < len(sure) and policy.more(pieces):
            policy.drew(logits(*sure[len(pieces)]), 0)
            pieces.append(0)
        proposals = self.translator.segment(pieces)[:room]
        return len(pieces), proposals if not pieces or policy.worthwhile(pieces) else []


def speeds(target: Target, task: str | None = None, seed: int = 0) -> Iterator[tuple[str, float]]:
    """(way, tokens a second over plain decoding's) of the answers to a task, or to all; a way is a fixed length, plain
    decoding's being "0", or "adaptive"."""
    asked = [one for one in answers(target.name) if task in (None, one.task)]
    plain = None
    for way in (*map(str, range(9)), "adaptive"):
        translator = Recorded()
        player = Player(target.machine(seed), translator)
        pace = player.machine.pace.with_drafter(ALONE)
        rate = sum_of(
            player.play(AdaptiveDepth(pace, translator, 16) if way == "adaptive" else FixedLength(int(way)), one)
            for one in asked
        ).rate
        plain = plain or rate
        yield way, rate / plain


def sum_of(outcomes: Iterable[Outcome]) -> Outcome:
    return Outcome(*(sum(of_each) for of_each in zip(*map(astuple, outcomes), strict=True)))


def main() -> None:
    print(f"| target | {' | '.join(TASKS)} | all |")
    print("|---" * (2 + len(TASKS)) + "|")
    for target in TARGETS:
        cells = []
        for task in (*TASKS, None):
            found = dict(speeds(target, task))
            adaptive = found.pop("adaptive")
            best = max(found, key=found.__getitem__)
            cells.append(f"{adaptive:.2f}, {found[best]:.2f} ({best})")
        print(f"| {target.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
