"""Ids that stand for pictures in a prompt: one for every row that a picture takes in a KV cache.

They lie beyond every vocabulary. Each stretch of a picture has a range of its own, so prompts that agree in a picture's
first id agree in all of it, and common beginnings never end inside one. Knows nothing of what is in a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FIRST = 1 << 30


def has_picture(ids: Iterable[int]) -> bool:
    return any(id >= FIRST for id in ids)


def until_picture(ids: Sequence[int]) -> Sequence[int]:
    """What of `ids` stands before the first picture."""
    return ids[: next((at for at, id in enumerate(ids) if id >= FIRST), len(ids))]


def step_end(ids: Sequence[int], start: int, most: int) -> int:
    """Where a pass over `ids` from `start` on has to end: behind a whole picture, or behind at most `most` ids of text
    and before the next picture."""
    if ids[start] >= FIRST:
        end = start + 1
        while end < len(ids) and ids[end] == ids[end - 1] + 1:
            end += 1
        return end
    end = min(len(ids), start + most)
    return next((at for at in range(start, end) if ids[at] >= FIRST), end)
