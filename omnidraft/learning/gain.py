"""What learning has brought in answers since: the drafter's acceptance before and after. Sums only.

Speeds are not compared: those of other days come from another moment of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.learning.facts import ServedAnswer

WINDOW = 50  # of the latest answers on either side
FEWEST = 40  # proposals on either side before acceptance is worth comparing


@dataclass(frozen=True, slots=True)
class Gain:
    """version: the first that served behind the answers compared with. acceptance: (before, after) of what the drafter
    proposed."""

    version: str
    acceptance: tuple[float, float]


def gain(answers: Sequence[ServedAnswer], target: str, version: str | None) -> Gain | None:
    """What the version served has brought with `target`; None while too little is known.

    answers: the last ones, oldest first. Compared are the latest answers of learned versions up to `version` with those
    of the bare drafter before the first of them, or of the oldest version known where those are no longer.
    """
    mine = [a for a in answers if a.target == target]
    if not version or not any(a.version == version for a in mine):
        return None
    base = "" if any(a.version == "" for a in mine) else mine[0].version
    learned = [a for a in mine if base < a.version <= version]
    if not learned:
        return None
    before = [a for a in mine[: mine.index(learned[0])] if a.version == base][-WINDOW:]
    after = learned[-WINDOW:]
    if min(sum(a.proposed for a in side) for side in (before, after)) < FEWEST:
        return None
    return Gain(min(a.version for a in learned), (_acceptance(before), _acceptance(after)))


def _acceptance(answers: Sequence[ServedAnswer]) -> float:
    return sum(a.accepted for a in answers) / sum(a.proposed for a in answers)
