"""What was learned about a drafter-target pair on this machine: times, chances, and whether drafting paid."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnidraft.decoding.acceptance import AcceptanceHead
from omnidraft.decoding.chances import Rates
from omnidraft.decoding.cost import NEAR, CostModel
from omnidraft.decoding.guard import Guard, Retry

_MEMORY = 0.995  # of the long-run rate, per round: several answers, so that one does not decide what time is worth


@dataclass(slots=True)
class Knowledge:
    """Of one drafter-target pair in one kind of sampling; lives as long as the pair and is stored."""

    cost: CostModel
    rates: Rates = field(default_factory=Rates)
    head: AcceptanceHead = field(default_factory=AcceptanceHead)
    drafting: bool = True  # expected to pay
    guard: Guard = field(default_factory=Guard)
    look: Retry = field(default_factory=lambda: Retry(NEAR))  # where drafting is not expected to pay
    offset: float = 0.0  # the next answer begins with, see `Chances`
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def drafts(self) -> bool:
        """Whether drafting is expected to pay, and was not ended."""
        return self.drafting and not self.guard.plain_only

    @property
    def rate(self) -> float:
        """R, tokens per second in the long run, never below plain decoding's."""
        plain = 1.0 / self.cost.pass_seconds(1)
        return max(plain, self.tokens / self.seconds) if self.seconds else plain

    def remember(self, tokens: int, seconds: float, rounds: int = 1) -> None:
        """Tokens emitted in `rounds` that took `seconds` together."""
        kept = _MEMORY**rounds
        self.tokens = kept * self.tokens + tokens
        self.seconds = kept * self.seconds + seconds

    def as_dict(self) -> dict:
        return {
            "cost": self.cost.as_dict(),
            "rates": self.rates.as_dict(),
            "head": self.head.as_dict(),
            "drafting": self.drafting,
            "plain": self.guard.plain_only,
        }

    @classmethod
    def from_dict(cls, data: dict) -> Knowledge:
        """KeyError, TypeError, ValueError or SettingsError for what `as_dict` did not write."""
        return cls(
            CostModel.from_dict(data["cost"]),
            Rates.from_dict(data["rates"]),
            AcceptanceHead.from_dict(data["head"]),
            bool(data["drafting"]),
            Guard(bool(data["plain"])),
        )
