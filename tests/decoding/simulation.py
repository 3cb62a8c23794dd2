"""Plays a length policy against a simulated machine and text: exact times, known acceptance, no models.

Text comes in stretches of different difficulty; the drafter's confidence tells, imperfectly, how likely it is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import PLAIN
from omnidraft.decoding.lookup import NO_MATCH
from omnidraft.vocab import Proposal

# pass times over a one-row pass, by rows: measured shapes of a memory-bound and a compute-bound machine
MEMORY_BOUND = {1: 1.0, 2: 1.21, 3: 1.38, 4: 1.51, 5: 1.64, 6: 1.67, 8: 2.07, 12: 2.50, 16: 3.07}
COMPUTE_BOUND = {1: 1.0, 2: 1.90, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83, 8: 4.84, 12: 6.24, 16: 9.33}


class OneToOne:
    """A translator for a drafter whose pieces are target tokens."""

    def segment(self, pieces, **_):
        return [Proposal(p, "direct", 1, i) for i, p in enumerate(pieces)]


@dataclass
class Outcome:
    tokens: int
    seconds: float
    draft_seconds: float
    passes: int

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Machine:
    """passes: C(n) by rows, step: D, both in seconds; acceptance: of each stretch of 40 tokens in turn.

    translating: seconds that a drafted piece takes besides its step.
    """

    def __init__(
        self, passes: dict[int, float], step: float, acceptance: list[float], seed: int = 0, translating: float = 0.0
    ) -> None:
        self.cost = CostModel(dict(passes), step)
        self._acceptance = acceptance
        self._translating = translating
        self._rng = np.random.default_rng(seed)

    def adaptive(self, longest: int = 16, knowledge: Knowledge | None = None) -> AdaptiveLength:
        return AdaptiveLength(knowledge or Knowledge(self.cost.copy()), OneToOne(), longest)

    def run(self, policy, tokens: int) -> Outcome:
        made = passes = 0
        total = drafting = 0.0
        while made < tokens:
            done, proposals = self._round(policy, made)
            policy.observe(done, proposals)
            made += done.emitted
            passes += 1
            total += done.draft + done.translate + done.verify
            drafting += done.draft
        return Outcome(made, total, drafting, passes)

    def _round(self, policy, made: int) -> tuple[Round, list[Proposal]]:
        idle = policy.rests() or policy.begin(1, NO_MATCH) == PLAIN
        pieces, right = [], []
        while not idle and policy.more(pieces):
            chance = self._acceptance[(made + len(pieces)) // 40 % len(self._acceptance)]
            chance = float(np.clip(self._rng.beta(4 * chance + 0.2, 4 * (1 - chance) + 0.2), 0.01, 0.99))
            right.append(self._rng.random() < chance)
            policy.drew(_row(chance), 0)
            pieces.append(0)
        kept = next((i for i, ok in enumerate(right) if not ok), len(right))
        m = len(pieces)
        translate = m * self._translating
        if m and not policy.worthwhile(pieces):
            policy.overheard([Proposal(0, "direct", 1, 0)], 0 if right[0] else 1)
            noise = 1.0
            return Round(m, 0, 0, 0, 1, m * self.cost.step, translate, self.cost.pass_seconds(1), 0.0), []
        noise = self._rng.uniform(0.97, 1.03)
        seconds = self.cost.pass_seconds(m + 1) * noise
        tested = min(kept + 1, m)
        done = Round(m, m, tested, kept, kept + 1, m * self.cost.step * noise, translate, seconds, 0.0)
        return done, [Proposal(0, "direct", 1, i) for i in range(m)]


def _row(chance: float) -> np.ndarray:
    """Drafter logits whose first id has probability `chance`."""
    rest = np.full(63, (1 - chance) / 63)
    return np.log(np.concatenate(([chance], rest))).astype(np.float32)
