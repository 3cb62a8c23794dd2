"""What learning has brought in answers since: the drafter's acceptance and the speed, before and after. Sums only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.learning.facts import ServedAnswer

WINDOW = 50  # of the latest answers on either side
FEWEST = 40  # proposals on either side before acceptance is worth comparing
PLAIN = 24  # plain rounds on either side before speed is


@dataclass(frozen=True, slots=True)
class Gain:
    """version: the first that served behind the answers compared with. acceptance: (before, after) of what the drafter
    proposed; speed: (before, after) over plain decoding, None where too few rounds went plainly to say."""

    version: str
    acceptance: tuple[float, float]
    speed: tuple[float, float] | None


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
    then, now = _speed(before), _speed(after)
    return Gain(
        min(a.version for a in learned),
        (_acceptance(before), _acceptance(after)),
        (then, now) if then is not None and now is not None else None,
    )


def _acceptance(answers: Sequence[ServedAnswer]) -> float:
    return sum(a.accepted for a in answers) / sum(a.proposed for a in answers)


def _speed(answers: Sequence[ServedAnswer]) -> float | None:
    """The time plain rounds would have taken for the same tokens, over the time it took."""
    rounds, took = sum(a.plain for a in answers), sum(a.seconds for a in answers)
    if rounds < PLAIN or took <= 0:
        return None
    return sum(a.tokens for a in answers) * sum(a.plain_seconds for a in answers) / rounds / took
