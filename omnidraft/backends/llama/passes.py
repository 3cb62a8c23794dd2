"""How many tokens each pass of llama.cpp takes. Knows nothing of what they are."""

from __future__ import annotations


def passes(count: int, rows: int, batch: int, max_rows: int) -> list[tuple[int, int]]:
    """(tokens, rows) of each pass over `count` tokens that gives the last `rows` rows: full batches without rows, then
    at most `max_rows` rows in each."""
    if 0 < count <= batch and rows <= max_rows:  # as most are
        return [(count, rows)]
    first, found = min(rows, max_rows), []
    left = count - rows + first
    while left > batch:
        step = min(batch, left - first)
        found.append((step, 0))
        left -= step
    if left:
        found.append((left, first))
    return [*found, *((n := min(more, max_rows), n) for more in range(rows - first, 0, -max_rows))]
