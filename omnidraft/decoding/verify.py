"""Exact verification: the target draws its own token at every position; a proposal is kept if and only if it is that.

The draw is the argmax at T = 0, else the argmax of log p + g (`sampling`). Whatever is proposed, the emitted tokens are
those plain decoding would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidraft.decoding.events import Captured
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.topk import Scores


@dataclass(frozen=True, slots=True)
class Emission:
    """A token that stands, with what the target thought at its position."""

    id: int
    candidates: Captured | None
    scores: Scores | None = None


@dataclass(slots=True)
class Verdict:
    """Outcome of one target pass.

    emitted: the tokens that stand, at least one; the first `accepted` of them are proposals. tested: proposals
    compared, the first mismatch included.
    """

    emitted: list[Emission] = field(default_factory=list)
    accepted: int = 0
    tested: int = 0


def verify(
    rows: np.ndarray,
    proposals: Sequence[int],
    sampler: Sampler,
    recent: list[int],
    position: int,
    ends: Callable[[int], bool],
) -> Verdict:
    """Accept while proposal == draw.

    rows: (m + 1, V) logits; row i is the target's behind the first i of the m proposals. recent: verified ids, grows
    by what is emitted (penalties see verified tokens only). ends: true for ids nothing may follow.
    """
    verdict = Verdict()
    for i in range(len(proposals) + 1):
        candidates = sampler.prepare(rows[i], recent)
        drawn = sampler.draw(rows[i], position + i)
        verdict.emitted.append(Emission(drawn, candidates, sampler.scores(drawn)))
        recent.append(drawn)
        if i == len(proposals):
            break
        verdict.tested += 1
        if drawn != proposals[i]:
            break
        verdict.accepted += 1
        if ends(drawn):
            break
    return verdict
