"""Finds the first of several markers in text that is still coming, and what of it may be given away meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.formats.pattern import MORE, Match, match, overlap
from omnidraft.backends.prompting.formats.shapes import Pattern


@dataclass(frozen=True, slots=True)
class Found:
    """Where a marker begins and ends, and what it means."""

    start: int
    end: int
    meaning: Any


class Markers:
    """Patterns that begin with a literal, each with a meaning; of several at one place the longest counts."""

    def __init__(self, patterns: Iterable[tuple[Pattern, Any]]) -> None:
        self._by_first: dict[str, list[tuple[Pattern, Any]]] = {}
        for pattern, meaning in patterns:
            self._by_first.setdefault(str(pattern[0]), []).append((pattern, meaning))
        firsts = sorted(self._by_first, key=len, reverse=True)
        self._search = re.compile("|".join(map(re.escape, firsts))) if firsts else None
        self._letters = {first[0] for first in firsts}
        self._longest = max(map(len, firsts), default=0)

    def find(self, text: str, final: bool, prior: Any = None) -> Found | int:
        """The first marker; else how much of the text can be no part of one, whatever follows."""
        at = 0
        while self._search is not None and (first := self._search.search(text, at)):
            found = self.at(text, first.start(), final, prior)
            if found is MORE:
                return first.start()
            if isinstance(found, Found):
                return found
            at = first.start() + 1
        return len(text) if final else self._settled(text)

    def at(self, text: str, at: int, final: bool, prior: Any = None, without: Any = None) -> Found | object | None:
        """The marker that stands at `at`; MORE if one may; None if none does.

        A marker that means `prior` counts before all others, those that mean `without` not at all.
        """
        best: Found | None = None
        open_end = False
        for first, patterns in self._by_first.items():
            if not text.startswith(first, at):
                open_end = open_end or (not final and first.startswith(text[at:]))
                continue
            for pattern, meaning in patterns:
                if without is not None and meaning == without:
                    continue
                found = match(pattern, text, at, final)
                open_end = open_end or found is MORE
                if isinstance(found, Match) and prior is not None and meaning == prior:
                    return Found(at, found.end, meaning)
                if isinstance(found, Match) and (best is None or found.end > best.end):
                    best = Found(at, found.end, meaning)
        return MORE if open_end else best

    def _settled(self, text: str) -> int:
        tail = text[-self._longest :] if self._longest else ""
        if self._letters.isdisjoint(tail):
            return len(text)
        return len(text) - max(overlap(tail, first) for first in self._by_first)
