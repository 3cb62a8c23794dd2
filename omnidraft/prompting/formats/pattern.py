"""Literal text with gaps in it, as a template writes it around a call, found again in what a model writes: one at a
place (`match`), or the first of several in text that is still coming (`Markers`).

White space between the parts of a pattern is the model's to choose. Knows nothing of calls or templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MORE = object()  # what has come so far may become a match
_ATOM = re.compile(r"<[^<>\s]*>?|\[[^\[\]\s<]*\]?|[^\s<\[>]+>*|>+")
_SPACE = re.compile(r"\s*")
_LONGEST_GAP = 512  # characters
_FORGOTTEN = 16  # parts of a literal that a model may leave out


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that differs from call to call. kind: name, id, key, number or word."""

    kind: str


NAME, ID, KEY, NUMBER, WORD = (Gap(kind) for kind in ("name", "id", "key", "number", "word"))
_RUNS = {
    "name": re.compile(r"[\w.\-:/]*"),
    "id": re.compile(r"[^\s<>\[\]\"'{}(),|｜]*"),
    "key": re.compile(r"[^\n<>\"'{}()=|｜]*"),
    "number": re.compile(r"[0-9]*"),
    "word": re.compile(r"[\w-]*"),
}
Item = str | Gap
Pattern = tuple[Item, ...]


def atoms(text: str) -> list[str]:
    """The parts of a literal that white space may stand between: tags, bracketed words, runs of anything else."""
    return _ATOM.findall(text)


def pieces(parts: Iterable[Item]) -> Pattern:
    """Literals cut into atoms; gaps as they are."""
    return tuple(
        piece for part in parts for piece in (atoms(part) if isinstance(part, str) else [part])
    )  # fmt: skip


def is_tag(atom: Item) -> bool:
    """Whether an atom can be nothing but a marker: `<name>`, `[NAME]`, `<|x|>`."""
    return isinstance(atom, str) and len(atom) > 2 and atom[0] in "<[" and any(map(str.isalpha, atom))


def is_marker(text: str) -> bool:
    """Whether a token of its own is one that nobody writes in plain words: `<name>`, `]~b]`, `[e~[`."""
    return len(text) > 2 and not (text[0].isalnum() or text[0].isspace()) and any(map(str.isalpha, text))


def common_start(a: Sequence[Item], b: Sequence[Item]) -> int:
    """How many items two sequences begin with alike."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


def common_end(a: Sequence[Item], b: Sequence[Item]) -> int:
    return common_start(a[::-1], b[::-1])


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern ended in a text, and what stood in its gaps."""

    end: int
    gaps: dict[str, str] = field(default_factory=dict)


def match(pattern: Sequence[Item], text: str, at: int, over: bool) -> Match | object | None:
    """The pattern at `at`; MORE if the text ends before that is known; None if it does not stand there."""
    gaps: dict[str, str] = {}
    for index, item in enumerate(pattern):
        if index:
            at = skip_space(text, at)
        if isinstance(item, Gap):
            end = _gap_end(item, pattern[index + 1 :], text, at)
            if end == len(text) and not over and end - at < _LONGEST_GAP:
                return MORE
            if end == at and item.kind in ("name", "key", "number"):
                return None
            gaps[item.kind] = text[at:end]
            at = end
        elif text.startswith(item, at):
            at += len(item)
        else:
            return MORE if not over and item.startswith(text[at:]) else None
    return Match(at, gaps)


def last_match(pattern: Sequence[Item], text: str) -> Match | None:
    """The pattern where it stands last; None if it does nowhere."""
    at = text.rfind(str(pattern[0]))
    while at >= 0:
        found = match(pattern, text, at, True)
        if isinstance(found, Match):
            return found
        at = text.rfind(str(pattern[0]), 0, at)
    return None


def _gap_end(gap: Gap, following: Sequence[Item], text: str, at: int) -> int:
    end = _RUNS[gap.kind].match(text, at).end()  # type: ignore[union-attr]
    if following and isinstance(following[0], str):
        stop = text.find(following[0], at, end)
        return end if stop < 0 else stop
    return end


def skip_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    return next((n for n in range(min(len(marker) - 1, len(text)), 0, -1) if text.endswith(marker[:n])), 0)


def ends(pattern: Sequence[Item]) -> Iterator[Pattern]:
    """The pattern, and what is left of it from each of its first tags on: models forget what stands in front."""
    for index, item in enumerate(pattern[:_FORGOTTEN]):
        if isinstance(item, str) and (index == 0 or is_tag(item)):
            yield tuple(pattern[index:])


def groups(items: Sequence[Item]) -> tuple[Pattern, ...]:
    """Tags and signs, each with the plain words behind it, which mean nothing without it."""
    found: list[list[Item]] = []
    for item in items:
        word = isinstance(item, Gap) or (item[0].isalnum() and not is_tag(item))
        if word and found:
            found[-1].append(item)
        elif not word:
            found.append([item])
    return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True)
class Found:
    """Where a marker begins and ends, and what it means; None: no marker, only where text ends that is none."""

    start: int
    end: int
    meaning: Any = None

    @property
    def length(self) -> int:
        return self.end - self.start


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

    def find(self, text: str, over: bool, prior: Any = None) -> Found:
        """The first marker; else how much of the text can be no part of one, whatever follows."""
        at = 0
        while self._search is not None and (first := self._search.search(text, at)):
            found = self.at(text, first.start(), over, prior)
            if isinstance(found, Found):
                return found
            if found is MORE:
                return Found(first.start(), first.start())
            at = first.start() + 1
        end = len(text) if over else self._settled(text)
        return Found(end, end)

    def at(self, text: str, at: int, over: bool, prior: Any = None, without: Any = None) -> Found | object | None:
        """The marker that stands at `at`; MORE if one may; None if none does.

        A marker that means `prior` counts before all others, those that mean `without` not at all.
        """
        best: Found | None = None
        open_end = False
        for first, patterns in self._by_first.items():
            if not text.startswith(first, at):
                open_end = open_end or (not over and first.startswith(text[at:]))
                continue
            for pattern, meaning in patterns:
                if without is not None and meaning == without:
                    continue
                found = match(pattern, text, at, over)
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
