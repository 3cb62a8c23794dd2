"""A JSON object read in pieces: where it ends, and which strings and values stand at which keys.

Only as strict as finding the end takes; what was read is parsed by whoever needs its values. Linear in the text.
"""

from __future__ import annotations

import json
import re

_OUTSIDE = re.compile(r"[\"{}\[\],:]")
_INSIDE = re.compile(r"[\"\\\x00-\x1f]")
_DEEPEST = 500
Path = tuple[str, ...]


class JsonScan:
    """Feed it the text from `{` on. `strings`: values of strings by path; `watched` are the paths whose text is kept.

    Paths are of keys only: what stands in lists has none. A watched value's text is in `texts`, whole once its path
    is in `ended`; characters that JSON forbids in strings are escaped there.
    """

    def __init__(self, named: frozenset[Path], watched: frozenset[Path]) -> None:
        self.strings: dict[Path, str] = {}
        self.texts: dict[Path, list[str]] = {}
        self.ended: set[Path] = set()
        self.keys: list[Path] = []  # that have come so far, of the first two levels
        self.done = self.failed = False
        self._named, self._watched = named, watched
        self._stack: list[str] = []
        self._path: list[str] = []
        self._value = False  # whether what comes next is a value
        self._string: list[str] | None = None
        self._escaped = False
        self._copying: Path | None = None
        if () in watched:
            self._copying, self.texts[()] = (), []

    @property
    def started(self) -> bool:
        return self.done or bool(self._stack)

    def feed(self, text: str, at: int = 0) -> int:
        """Reads on from `at`; where it stopped: behind the object's end, or at the end of the text."""
        while at < len(text) and not (self.done or self.failed):
            at = self._outside(text, at) if self._string is None else self._inside(text, at)
        return at

    def _outside(self, text: str, at: int) -> int:
        found = _OUTSIDE.search(text, at)
        end = found.start() if found else len(text)
        if end > at:
            if not text[at:end].isspace():
                self._begin_value()
            self._copy(text[at:end])
        if found is None:
            return end
        sign = found[0]
        if sign == '"':
            self._string = []
            self._begin_value()
        elif sign in "{[":
            self._open(sign)
            return end + 1
        elif sign in "}]":
            self._close(sign)
            return end + 1
        elif sign == ",":
            self._end_value()
            self._value = bool(self._stack) and self._stack[-1] == "["
        else:
            self._value = True
        self._copy(sign)
        return end + 1

    def _inside(self, text: str, at: int) -> int:
        assert self._string is not None
        if self._escaped:
            self._escaped = False
            self._string.append(text[at])
            self._copy(text[at])
            return at + 1
        found = _INSIDE.search(text, at)
        end = found.start() if found else len(text)
        self._string.append(text[at:end])
        self._copy(text[at:end])
        if found is None:
            return end
        sign = found[0]
        if sign == '"':
            self._copy(sign)
            self._end_string()
        elif sign == "\\":
            self._escaped = True
            self._string.append(sign)
            self._copy(sign)
        else:
            escaped = json.dumps(sign)[1:-1]
            self._string.append(escaped)
            self._copy(escaped)
        return end + 1

    def _open(self, sign: str) -> None:
        if self._stack:
            self._begin_value()
        self._copy(sign)
        self._stack.append(sign)
        self._value = sign == "["
        self.failed = len(self._stack) > _DEEPEST

    def _close(self, sign: str) -> None:
        self._end_value()
        self._copy(sign)
        if not self._stack or {"{": "}", "[": "]"}[self._stack.pop()] != sign:
            self.failed = True
        self.done = not self._stack
        self._end_value()

    def _place(self) -> Path | None:
        """The path of the value that stands here; None in lists and far down."""
        depth = len(self._stack)
        return tuple(self._path) if depth <= 2 and len(self._path) == depth and "[" not in self._stack else None

    def _begin_value(self) -> None:
        place = self._place()
        if self._value and self._copying is None and place is not None and self._watches(place):
            self._copying = place
            self.texts[place] = []

    def _watches(self, place: Path) -> bool:
        return place in self._watched and place not in self.texts

    def _end_value(self) -> None:
        """A value is over if one stood here; so is its key."""
        if len(self._stack) > len(self._path):
            return
        if len(self._path) == len(self._stack):
            if self._copying == tuple(self._path):
                self.ended.add(self._copying)
                self._copying = None
            if self._path:
                self._path.pop()
        self._value = False

    def _end_string(self) -> None:
        text = "".join(self._string or ())
        self._string = None
        if self._stack and self._stack[-1] == "{" and not self._value:
            if len(self._stack) == len(self._path) + 1:
                self._path.append(_decoded(text))
                if len(self._path) <= 2 and "[" not in self._stack:
                    self.keys.append(tuple(self._path))
        elif (place := self._place()) is not None and place in self._named:
            self.strings.setdefault(place, _decoded(text))

    def _copy(self, text: str) -> None:
        if self._copying is not None:
            self.texts[self._copying].append(text)


def _decoded(text: str) -> str:
    try:
        return json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
