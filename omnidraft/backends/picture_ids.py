"""Ids that stand for pictures in a prompt: one for every row that a picture takes in a KV cache.

They lie beyond every vocabulary. Each stretch of a picture has a range of its own, so prompts that agree in a picture's
first id agree in all of it, and common beginnings never end inside one. Knows nothing of what is in a picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

FIRST = 1 << 30


def until_picture(ids: Sequence[int]) -> Sequence[int]:
    """What of `ids` stands before the first picture."""
    return ids[: next((at for at, id in enumerate(ids) if id >= FIRST), len(ids))]


def pictures_end(ids: Sequence[int]) -> int:
    """How much of `ids` stands up to the end of the last picture; 0 where there is none."""
    return next((at + 1 for at in range(len(ids) - 1, -1, -1) if ids[at] >= FIRST), 0)


def steps(ids: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """`ids` as passes may take them: whole pictures, each by itself, and at most `most` ids of text between them."""
    start = 0
    while start < len(ids):
        end = start + 1
        if ids[start] >= FIRST:
            while end < len(ids) and ids[end] == ids[end - 1] + 1:
                end += 1
        else:
            end = min(len(ids), start + most)
            end = next((at for at in range(start, end) if ids[at] >= FIRST), end)
        yield ids[start:end]
        start = end
