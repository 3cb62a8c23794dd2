"""Classes of characters as automata over the bytes of UTF-8.

A state is what may still come of a character: the set of sequences of byte ranges that are left. States of different
characters with the same rest are the same, so an automaton has a handful of them, whatever the class.
"""

from __future__ import annotations

from collections.abc import Iterator

Ranges = tuple[tuple[int, int], ...]
_LENGTHS = ((0x01, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
_DONE = frozenset({()})
DONE, DEAD = -1, -2


class ByteClass:
    """`step(state, byte)` from state 0 on: another state, DONE behind the last byte, DEAD where the byte cannot be."""

    def __init__(self, ranges: Ranges) -> None:
        start = frozenset(sequence for low, high in ranges for sequence in _sequences(low, high))
        self._states = [start]
        self._numbers = {start: 0}
        self._known: dict[tuple[int, int], int] = {}

    def step(self, state: int, byte: int) -> int:
        key = (state, byte)
        known = self._known.get(key)
        if known is None:
            rest = frozenset(s[1:] for s in self._states[state] if s[0][0] <= byte <= s[0][1])
            known = self._known[key] = DONE if rest == _DONE else self._number(rest) if rest else DEAD
        return known

    def _number(self, rest: frozenset) -> int:
        if rest not in self._numbers:
            self._numbers[rest] = len(self._states)
            self._states.append(rest)
        return self._numbers[rest]


def _sequences(low: int, high: int) -> Iterator[Ranges]:
    """Sequences of byte ranges that together spell the characters from `low` to `high`, surrogates and NUL left out."""
    for first, last in _LENGTHS:
        start, end = max(low, first), min(high, last)
        if start <= end:
            yield from _of_one_length(chr(start).encode(), chr(end).encode())


def _of_one_length(low: bytes, high: bytes) -> Iterator[Ranges]:
    if len(low) == 1:
        yield ((low[0], high[0]),)
        return
    if low[0] == high[0]:
        yield from (((low[0], low[0]), *rest) for rest in _of_one_length(low[1:], high[1:]))
        return
    least, most = b"\x80" * (len(low) - 1), b"\xbf" * (len(low) - 1)
    first, last = low[0], high[0]
    if low[1:] != least:
        yield from (((first, first), *rest) for rest in _of_one_length(low[1:], most))
        first += 1
    if high[1:] != most:
        yield from (((last, last), *rest) for rest in _of_one_length(least, high[1:]))
        last -= 1
    if first <= last:
        yield ((first, last), *((0x80, 0xBF) for _ in least))
