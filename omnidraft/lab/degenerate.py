"""Finds answers that have fallen into a loop: small models do at temperature 0, and a loop drafts itself."""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 64
LONGEST_CYCLE = 16


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
