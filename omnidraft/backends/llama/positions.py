"""Where tokens stand in a llama.cpp cache that holds pictures.

A picture takes as many positions as its model counts for it, which is fewer than its rows where positions have three
axes (M-RoPE). Everybody else counts rows; only this knows positions.
"""

from __future__ import annotations

from typing import NamedTuple


class _Seen(NamedTuple):
    start: int  # rows before the picture
    end: int  # rows up to its end
    position: int  # of what follows it


class Positions:
    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def behind(self, rows: int) -> int:
        """The position of what follows the first `rows` rows; ValueError inside a picture."""
        for seen in reversed(self._seen):
            if rows >= seen.end:
                return seen.position + rows - seen.end
            if rows > seen.start:
                raise ValueError(f"row {rows} is inside a picture")
        return rows

    def add(self, start: int, rows: int, positions: int) -> None:
        """A picture was read behind `start` rows."""
        self._seen.append(_Seen(start, start + rows, self.behind(start) + positions))

    def rows(self, last: int) -> int:
        """How many rows a cache holds whose last position is `last`."""
        for seen in reversed(self._seen):
            if last >= self.behind(seen.start):
                return seen.end + max(0, last + 1 - seen.position)
        return last + 1

    def cut(self, rows: int) -> None:
        """Everything behind `rows` rows was forgotten."""
        while self._seen and self._seen[-1].end > rows:
            del self._seen[-1]
