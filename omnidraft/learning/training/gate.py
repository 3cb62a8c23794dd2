"""Whether a trained adapter may be served: judged on held-out answers, old and new, against the one served now.

Pure arithmetic on paired per-token estimates; it knows nothing of models or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

FEWEST = 32  # held-out tokens without which nothing can be said


@dataclass(frozen=True)
class Scores:
    """Per-token acceptance estimates of one slice, (T,) each; see `evaluate`. greedy: 0 or 1, overlap: 0 to 1."""

    greedy: np.ndarray
    overlap: np.ndarray

    @property
    def combined(self) -> np.ndarray:
        """Half greedy, half drawn: answers are given both ways and neither may pay for the other."""
        return (self.greedy + self.overlap) / 2


@dataclass(frozen=True)
class Verdict:
    """accepted: serve it. reason: one sentence. ruined: nothing can go on from such weights."""

    accepted: bool
    reason: str
    ruined: bool = False


def judge(before: Mapping[str, Scores], after: Mapping[str, Scores]) -> Verdict:
    """Compare slices ("old", "new") token by token.

    Accepted if the mean change over all held-out tokens is more than its standard error and no slice falls by more than
    its own: changes within the noise must not add up to a decline. What is refused is trained on (see `candidate`), so
    strictness costs little.
    """
    changes = {name: after[name].combined - before[name].combined for name in before}
    everything = np.concatenate(list(changes.values())) if changes else np.zeros(0)
    if not np.isfinite(everything).all():
        return Verdict(False, "the trained adapter gives no numbers", ruined=True)
    if len(everything) < FEWEST:
        return Verdict(False, f"only {len(everything)} held-out tokens to judge by")
    for name in ("old", "new"):
        change = changes.get(name, np.zeros(0))
        if len(change) >= FEWEST and change.mean() < -standard_error(change):
            return Verdict(False, f"acceptance on {name} answers would fall by {-change.mean():.3f}")
    if everything.mean() <= standard_error(everything):
        return Verdict(False, "acceptance on held-out answers did not rise beyond chance")
    return Verdict(True, f"acceptance on held-out answers rises by {everything.mean():.3f}")


def standard_error(change: np.ndarray) -> float:
    return float(change.std(ddof=1) / np.sqrt(len(change))) if len(change) > 1 else float("inf")
