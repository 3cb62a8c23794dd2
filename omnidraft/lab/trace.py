"""One answer as numbers: its tokens, what each round did and took, and where it has fallen into a loop: small models do
at temperature 0, and a loop drafts itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from omnidraft.decoding.events import Event, Finished, Round, Token

WINDOW = 64
LONGEST_CYCLE = 16


@dataclass(slots=True)
class Trace:
    """Rounds up to the point where the answer became degenerate, if it did. Times in seconds."""

    ids: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    prefill: float = 0.0
    degenerate: bool = False

    @property
    def tokens(self) -> int:
        return sum(r.emitted for r in self.rounds)

    @property
    def decode(self) -> float:
        return sum(r.draft + r.translate + r.verify + r.other for r in self.rounds)

    @property
    def proposed(self) -> int:
        return sum(r.proposed for r in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(r.accepted for r in self.rounds)


def record(events: Iterable[Event]) -> Trace:
    """Run an answer to its end; cut it where it starts looping."""
    trace = Trace()
    for event in events:
        if isinstance(event, Token):
            trace.ids.append(event.id)
        elif isinstance(event, Round):
            trace.rounds.append(event)
        elif isinstance(event, Finished):
            trace.prefill = event.statistics.prefill
    return before_loop(trace)


def before_loop(trace: Trace) -> Trace:
    """Only whole rounds until where it starts looping, so that no method is paid for echoing itself."""
    cut = onset(trace.ids)
    if cut is not None:
        trace.degenerate = True
        before = accumulate((done.emitted for done in trace.rounds), initial=0)
        trace.rounds = [done for done, reached in zip(trace.rounds, before, strict=False) if reached < cut]
    return trace


def onset(ids: Sequence[int]) -> int | None:
    """Index from which `ids` only repeats itself, None if it does not.

    Degenerate: within the last 64 tokens at least half are a cycle of at most 16 tokens. The onset is where the cycle's
    second turn begins: the first turn was said for the first time.
    """
    longest = 0
    period = 0
    for candidate in range(1, LONGEST_CYCLE + 1):
        run = _run(ids, candidate)
        if run > longest:
            longest, period = run, candidate
    if longest < WINDOW // 2 or longest < 2 * period:
        return None
    return len(ids) - longest + period


def _run(ids: Sequence[int], period: int) -> int:
    """Length of the longest end of `ids` with this period."""
    n = len(ids)
    matched = 0
    while matched < n - period and ids[n - 1 - matched] == ids[n - 1 - matched - period]:
        matched += 1
    return matched + period if matched else 0
