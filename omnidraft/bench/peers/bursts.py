"""One answer of any program as bursts of tokens with their times, cut where it begins to loop.

What is counted is the same for all: the time from the first burst, which ends the reading of the prompt, to the last,
over the tokens behind the first. Knows no program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omnidraft.lab.degenerate import onset

LONG = 32  # tokens from which an answer says something about speed


class Burst(NamedTuple):
    """Tokens that came together, `at` seconds after the question."""

    ids: tuple[int, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """ids: all that was said. tokens, seconds: counted ones (above), None without any. per_pass: tokens a target pass,
    None where the program does not tell. looped: cut at a loop."""

    ids: list[int]
    tokens: int
    seconds: float
    per_pass: float | None
    looped: bool

    @property
    def per_token(self) -> float | None:
        return self.seconds / self.tokens if self.tokens else None

    @property
    def long(self) -> bool:
        return self.tokens >= LONG - 1


def answer_of(bursts: Iterable[Burst], passes_are_bursts: bool = True) -> Answer:
    """The answer that came in these bursts; passes_are_bursts: every burst is what one target pass brought."""
    came = [burst for burst in bursts if burst.ids]
    ids = [id for burst in came for id in burst.ids]
    cut = onset(ids)
    kept = came if cut is None else _until(came, cut)
    tokens = sum(len(burst.ids) for burst in kept[1:])
    seconds = kept[-1].at - kept[0].at if kept else 0.0
    per_pass = tokens / (len(kept) - 1) if passes_are_bursts and len(kept) > 1 else None
    return Answer(ids, tokens, seconds, per_pass, cut is not None)


def _until(bursts: Sequence[Burst], tokens: int) -> list[Burst]:
    """Whole bursts until `tokens` are reached."""
    kept: list[Burst] = []
    for burst in bursts:
        if sum(len(one.ids) for one in kept) >= tokens:
            break
        kept.append(burst)
    return kept
