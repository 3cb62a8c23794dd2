"""What was learned about a drafter-target pair on this machine: times, acceptance, and what looking was worth."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnidraft.decoding.acceptance import AcceptanceHead, Average, Rates
from omnidraft.decoding.copy_guard import CopyGuard
from omnidraft.decoding.copying import CopyRates
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.guard import Guard

_MEMORY = 0.995  # of the long-run rate, per round


@dataclass(slots=True)
class Knowledge:
    """What is known of one drafter-target pair in one kind of sampling; lives as long as the pair and is stored.

    copies: how often looked-up tokens were right; usual: tokens of an answer.
    """

    cost: CostModel
    look: Average = field(default_factory=lambda: Average(0.5, 1.0))  # tokens a look was worth, proposed or not
    rates: Rates = field(default_factory=Rates)
    head: AcceptanceHead = field(default_factory=AcceptanceHead)
    copies: CopyRates = field(default_factory=CopyRates)
    usual: Average = field(default_factory=lambda: Average(64.0, keep=0.9))
    tokens: float = 0.0
    seconds: float = 0.0
    plain_seconds: float = 0.0  # plain decoding that guesses not proposed may still be charged to
    offset: float = 0.0  # the next answer begins with, see `Foresight`
    drafting: bool = True
    guard: Guard = field(default_factory=Guard)
    copy_guard: CopyGuard = field(default_factory=CopyGuard)

    @property
    def rate(self) -> float:
        """R, tokens per second, never below plain decoding's."""
        plain = 1.0 / self.cost.pass_seconds(1)
        return max(plain, self.tokens / self.seconds) if self.seconds else plain

    def remember(self, tokens: int, seconds: float, rounds: int = 1) -> None:
        """Tokens emitted in `rounds` that took `seconds` together, for the long-run rate."""
        kept = _MEMORY**rounds
        self.tokens = kept * self.tokens + tokens
        self.seconds = kept * self.seconds + seconds

    def as_dict(self) -> dict:
        return {
            "cost": self.cost.as_dict(),
            "look": [self.look.value, self.look.weight],
            "rates": self.rates.as_dict(),
            "head": self.head.as_dict(),
            "copies": self.copies.as_list(),
            "usual": [self.usual.value, self.usual.weight],
            "drafting": self.drafting,
            "plain": self.guard.plain_only,
        }

    @classmethod
    def from_dict(cls, data: dict) -> Knowledge:
        """KeyError, TypeError, ValueError or SettingsError for what `as_dict` did not write."""
        return cls(
            CostModel.from_dict(data["cost"]),
            Average(*map(float, data["look"])),
            Rates.from_dict(data["rates"]),
            AcceptanceHead.from_dict(data["head"]),
            CopyRates.from_list(data["copies"]),
            Average(float(data["usual"][0]), float(data["usual"][1]), 0.9),
            drafting=bool(data["drafting"]),
            guard=Guard(bool(data["plain"])),
        )
