"""Plays a length policy against a simulated machine and text: exact times, known acceptance, no models.

Text comes in stretches of different difficulty; the drafter's confidence tells, imperfectly, how likely it is right.
What the machine truly takes is kept apart from what the policy was told of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omnidraft.decoding.depth import AdaptiveDepth
from omnidraft.decoding.drafting import PLAIN, FixedLength
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.decoding.pace import Pace
from omnidraft.vocab import Proposal

# pass times over a one-row pass, by rows: measured shapes of a memory-bound and a compute-bound machine
MEMORY_BOUND = {1: 1.0, 2: 1.21, 3: 1.38, 4: 1.51, 5: 1.64, 6: 1.67, 8: 2.07, 12: 2.50, 16: 3.07}
COMPUTE_BOUND = {1: 1.0, 2: 1.90, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83, 8: 4.84, 12: 6.24, 16: 9.33}
FLAT = {1: 1.0, 2: 1.01, 4: 1.03, 5: 1.04, 8: 1.10, 12: 1.2, 16: 1.3}
_READ_AHEAD = 0.1  # of a draft step: what an id takes that the drafter reads behind plain rounds
_PROMPT = 60  # ids that the drafter has to read before its first draft of an answer
_PASSAGE = 24  # ids of an earlier passage at hand
_COLD = 0.15  # of itself: what a drafted round takes longer behind plain ones


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

    translating: seconds that a drafted piece takes besides its step. known: what the policy is told, the truth if
    None. load: by what factor the machine is slower at a moment (in seconds since the start) for a pass of so many
    rows. stalls: share of rounds that are interrupted, for ten passes of one row. catching_up: whether the drafter must
    read what was said while it did not draft, with cold caches. copies: of each stretch in turn, how likely a token of
    an earlier passage is right, 0 where there is none.
    """

    def __init__(
        self,
        passes: dict[int, float],
        step: float,
        acceptance: list[float],
        seed: int = 0,
        translating: float = 0.0,
        *,
        known: Pace | None = None,
        load: Callable[[float, int], float] | None = None,
        stalls: float = 0.0,
        catching_up: bool = False,
        copies: list[float] | None = None,
        first: float = 0.0,
    ) -> None:
        self.pace = known or Pace(dict(passes), step)
        self.now = 0.0
        self._passes, self._step, self._first = dict(passes), step, first
        self._acceptance = acceptance
        self._translating = translating
        self._load = load or (lambda now, rows: 1.0)
        self._stalls = stalls
        self._catching_up = catching_up
        self._copies = copies or [0.0]
        self.unread = 0
        self._wide = False
        self._rng = np.random.default_rng(seed)

    def adaptive(self, longest: int = 16, pace: Pace | None = None) -> AdaptiveDepth:
        return AdaptiveDepth(pace or self.pace.duplicate(), OneToOne(), longest)

    def pass_seconds(self, rows: int) -> float:
        """What a pass truly takes while nothing else runs."""
        widths = sorted(self._passes)
        high = min(max(bisect_left(widths, rows), 1), len(widths) - 1)
        low, high = widths[high - 1], widths[high]
        slope = (self._passes[high] - self._passes[low]) / (high - low)
        return self._passes[low] + slope * (rows - low)

    def run(self, policy, tokens: int) -> Outcome:
        made = passes = 0
        total = drafting = 0.0
        while made < tokens:
            done, proposals, said = self._round(policy, made)
            policy.observe(done, proposals, said)
            made += done.emitted
            passes += 1
            total += done.draft + done.translate + done.verify
            drafting += done.draft
        return Outcome(made, total, drafting, passes)

    def answers(self, stats: Pace | int, answers: int, tokens: int) -> Outcome:
        """Several answers of so many tokens, each under a policy of its own; a number is a fixed draft length."""
        found = []
        for _ in range(answers):
            fixed = isinstance(stats, int)
            policy = FixedLength(stats) if fixed else self.adaptive(pace=stats)
            self.unread = _PROMPT
            found.append(self.run(policy, tokens))
            policy.finish()
        return Outcome(*(sum(getattr(o, name) for o in found) for name in Outcome.__dataclass_fields__))

    def _round(self, policy, made: int) -> tuple[Round, list[Proposal], int]:
        behind = 1 + self.unread if self._catching_up else 1
        copied = self._copies[made // 40 % len(self._copies)]
        if copied:
            return self._copied_round(policy, behind, copied)
        idle = policy.rests or policy.begin(behind, NO_MATCH) == PLAIN
        return self._drafted_round(policy, made, idle)

    def _copied_round(self, policy, behind: int, chance: float) -> tuple[Round, list[Proposal], int]:
        """A round with an earlier passage at hand; the drafter is right as often there."""
        right = [self._rng.random() < chance for _ in range(_PASSAGE)]
        count = policy.begin(behind, Match([1] * _PASSAGE, 12, own=False))
        if count > 0:
            kept = next((i for i, ok in enumerate(right[:count]) if not ok), count)
            return self.timed(0, count, kept, copied=count), [Proposal(1, "lookup", 0, 0)] * count, 2 - right[0]
        done, proposals, _ = self._drafted_round(policy, 0, count == PLAIN)
        return done, proposals, 2 - right[0]

    def _drafted_round(self, policy, made: int, idle: bool) -> tuple[Round, list[Proposal], int]:
        pieces, right = [], []
        while not idle and policy.more(pieces):
            chance = self._acceptance[(made + len(pieces)) // 40 % len(self._acceptance)]
            chance = float(np.clip(self._rng.beta(4 * chance + 0.2, 4 * (1 - chance) + 0.2), 0.01, 0.99))
            right.append(self._rng.random() < chance)
            policy.drew(_row(chance), 0)
            pieces.append(0)
        kept = next((i for i, ok in enumerate(right) if not ok), len(right))
        m = len(pieces)
        if m and not policy.worthwhile(pieces):
            return self.timed(m, 0, 0), [], 0 if right[0] else 1
        return self.timed(m, m, kept), [Proposal(0, "direct", 1, i) for i in range(m)], 0 if kept else 1

    def timed(self, drafted: int, proposed: int, kept: int, copied: int = 0) -> Round:
        """The round with its times; the clock goes on."""
        noise = self._rng.uniform(0.97, 1.03) if proposed or not drafted else 1.0
        draft = (drafted * self._step + (self._first if drafted else 0.0)) * noise * self._load(self.now, 1)
        verify = self.pass_seconds(proposed + 1) * noise * self._load(self.now, proposed + 1)
        if drafted:
            cold = self._catching_up and self.unread
            draft += _READ_AHEAD * self._step * self.unread * self._catching_up
            draft, verify = (t * (1 + _COLD) if cold else t for t in (draft, verify))
        if self._stalls and self._rng.random() < self._stalls:
            verify += 10 * self._passes[1]
        self.unread = 0 if drafted else self.unread + 1
        translate = drafted * self._translating
        self.now += draft + translate + verify
        plain = not (drafted or proposed or self._wide)
        self._wide = proposed > 0
        return Round(
            drafted, proposed, min(kept + 1, proposed), kept, kept + 1, draft, translate, verify, 0.0, copied,
            plain=plain,
        )  # fmt: skip


def _row(chance: float) -> np.ndarray:
    """Drafter logits whose first id has probability `chance`."""
    rest = np.full(63, (1 - chance) / 63)
    return np.log(np.concatenate(([chance], rest))).astype(np.float32)
