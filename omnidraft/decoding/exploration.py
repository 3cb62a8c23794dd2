"""Looks at what the drafter would say where it has not paid lately: when they are due, and out of which budget.

Looks are paid for by a share of the time that plain decoding takes, the larger the more a good drafter could save
on this machine, and by what earlier looks earned or, had they been proposed, would have earned. Answers differ,
so most of it goes to the beginning of each.
"""

from __future__ import annotations

from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.knowledge import Knowledge

_GOOD = 0.7  # acceptance of a good drafter
_LONGEST = 5  # proposals looked at when asking what it could save
_SPENT = 0.05  # of that goes to finding out
_LEAST, _MOST = 0.005, 0.02  # of plain decoding's time, whatever it could save
_SPENT_AGAIN = 0.2  # of what looks earned, on further ones
_OPENING = 4  # looks an answer begins with, one a token
_PATIENCE = 5  # behind them looks are 2, 4, ... and at last 2^5 tokens apart while they promise nothing
_SAVED = 500  # tokens decoded plainly that later looks may be charged to at most


class Exploration:
    """One answer's looks; what is saved and owed (`Knowledge.plain_seconds`) goes on to the next one."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._share = worth_exploring(knowledge.cost)
        self._owing = knowledge.usual.value * knowledge.cost.pass_seconds(1)  # an answer may lend what it will save
        self._price = 0.0  # plain seconds that pay for the next look
        self.due = 0  # tokens before which another look would show nothing new
        self._failed = 0  # looks in a row that promised nothing

    def allows(self, more: float) -> bool:
        """Whether another look may be had at its last price; more: plain seconds not yet saved."""
        return self._knowledge.plain_seconds + more + self._owing >= self._price

    def affords(self, look: float, tokens: int) -> bool:
        """Likewise for a look that takes `look` seconds; one that a usual answer cannot pay for needs all savings."""
        k = self._knowledge
        self._price = look / self._share
        rich = k.plain_seconds >= 0.99 * _SAVED * k.cost.pass_seconds(1)
        return tokens >= self.due and (rich or self._price <= self._owing) and self.allows(0.0)

    def looked(self, tokens: int, promising: bool) -> None:
        self._failed = 0 if promising else self._failed + 1
        if promising:
            self.due = tokens
        elif self._failed < _OPENING:
            self.due = tokens + 1
        else:
            self.due = tokens + 2 ** min(self._failed - _OPENING + 1, _PATIENCE)

    def hit(self, kept: int, tokens: int) -> None:
        """The drafter was right `kept` times in a row: it is worth another look, and has earned some of it."""
        k = self._knowledge
        self._failed, self.due = 0, tokens
        gain = kept / k.rate - (k.cost.pass_seconds(kept + 1) - k.cost.pass_seconds(1))
        self.save(_SPENT_AGAIN * max(gain, 0.0) / self._share)

    def spend(self, seconds: float) -> None:
        """A look took `seconds` and earned nothing."""
        self._knowledge.plain_seconds -= seconds / self._share

    def save(self, seconds: float) -> None:
        k = self._knowledge
        k.plain_seconds = min(k.plain_seconds + seconds, _SAVED * k.cost.pass_seconds(1))


def worth_exploring(cost: CostModel) -> float:
    """The share of plain decoding's time that looks may take: a part of what a good drafter could save of it."""
    plain = cost.pass_seconds(1)
    best = tokens = kept = 1.0
    for length in range(1, _LONGEST + 1):
        kept *= _GOOD
        tokens += kept
        best = max(best, tokens * plain / (cost.pass_seconds(length + 1) + length * cost.step))
    return min(max(_SPENT * (best - 1.0), _LEAST), _MOST)
