"""Reads GBNF text into rules; GrammarError with the line for what is not GBNF or beyond the limits.

Brackets become rules of their own, so that nothing here or later has to descend. Repetitions stay as they are written:
program.py decides how to spell them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from omnidraft.backends.prompting.gbnf.limits import MAX_LENGTH, MAX_NESTING, MAX_REPEATS, MAX_REQUIRED, GrammarError

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_COUNTS = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\}")
_LINE_END = re.compile(r"\r\n|\r|\n|\Z")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_HEX = {"x": 2, "u": 4, "U": 8}
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Literal:
    data: bytes


@dataclass(frozen=True, slots=True)
class Class:
    """One character out of sorted, separate, inclusive ranges of code points."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ref:
    rule: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` from `low` to `high` times; None: as often as one likes."""

    item: Literal | Class | Ref
    low: int
    high: int | None


Item = Literal | Class | Ref | Repeat
Sequence = list[Item]


@dataclass(slots=True)
class Rules:
    """alternatives: of each rule; a rule's number is its index."""

    alternatives: list[list[Sequence]]
    root: int


def parse(text: str) -> Rules:
    """The rules of a grammar with a rule named root."""
    check_text(text)
    return _Parser(text).rules()


def check_text(text: str) -> None:
    """GrammarError for what is too long, empty or no text."""
    if not text.strip():
        raise GrammarError("The grammar is empty.")
    if len(text) > MAX_LENGTH or len(text.encode("utf-8", "replace")) > MAX_LENGTH:
        raise GrammarError(f"The grammar is longer than {MAX_LENGTH // 1024} KB.")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise GrammarError("The grammar holds characters that no text can have.")


@dataclass(slots=True)
class _Open:
    """A rule, or a bracket in it, that is being read."""

    rule: int
    alternatives: list[Sequence] = field(default_factory=lambda: [[]])


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._numbers: dict[str, int] = {}
        self._alternatives: list[list[Sequence] | None] = []

    def rules(self) -> Rules:
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            self._rule()
            self._skip(_SPACE_AND_LINES)
        if "root" not in self._numbers:
            raise GrammarError("The grammar is not valid GBNF: it has no rule named root.")
        for name, number in self._numbers.items():
            if self._alternatives[number] is None:
                raise GrammarError(f"The grammar is not valid GBNF: there is no rule named {name[:100]}.")
        return Rules([known for known in self._alternatives if known is not None], self._numbers["root"])

    def _rule(self) -> None:
        number = self._number(self._take(_NAME, "the name of a rule"))
        self._skip(_SPACE)
        if not self._text.startswith("::=", self._at):
            raise self._error("::= is missing")
        self._at += 3
        self._skip(_SPACE_AND_LINES)
        self._alternatives[number] = self._body(number)
        self._take(_LINE_END, "the end of the line")

    def _body(self, number: int) -> list[Sequence]:
        """The alternatives up to the end of the rule."""
        stack = [_Open(number)]
        while True:
            current = stack[-1]
            sign = self._text[self._at : self._at + 1]
            if sign == "|":
                current.alternatives.append([])
                self._step(True)
            elif sign == "(":
                if len(stack) > MAX_NESTING:
                    raise GrammarError(f"The grammar nests more than {MAX_NESTING} brackets.")
                stack.append(_Open(self._new()))
                self._step(True)
            elif sign == ")" and len(stack) > 1:
                stack.pop()
                self._alternatives[current.rule] = current.alternatives
                stack[-1].alternatives[-1].append(Ref(current.rule))
                self._step(len(stack) > 1)
            elif not (sign and self._item(sign, current.alternatives[-1], len(stack) > 1)):
                break
        if len(stack) > 1:
            raise self._error("a bracket is not closed")
        return stack[0].alternatives

    def _item(self, sign: str, sequence: Sequence, nested: bool) -> bool:
        """Read one item or repetition onto `sequence`; False where the rule ends."""
        if sign in "*+?{":
            self._repeat(sign, sequence)
        elif sign == '"':
            sequence.append(self._literal())
        elif sign == "[":
            sequence.append(self._class())
        elif sign == ".":
            sequence.append(Class(((0, _LAST),)))
            self._at += 1
        elif sign in "<!":
            raise self._error("tokens cannot be named (<...>); write what they spell in quotes")
        elif found := _NAME.match(self._text, self._at):
            sequence.append(Ref(self._number(found[0])))
            self._at = found.end()
        else:
            return False
        self._skip(_SPACE_AND_LINES if nested else _SPACE)
        return True

    def _repeat(self, sign: str, sequence: Sequence) -> None:
        if not sequence:
            raise self._error(f"nothing stands before {sign}")
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._counts()
        if sign != "{":
            self._at += 1
        item = sequence.pop()
        if isinstance(item, Repeat):
            inner = self._new()
            self._alternatives[inner] = [[item]]
            item = Ref(inner)
        sequence.append(Repeat(item, low, high))

    def _counts(self) -> tuple[int, int | None]:
        found = _COUNTS.match(self._text, self._at)
        if not found:
            raise self._error("a repetition is written {2}, {2,} or {2,5}")
        if max(len(found[1]), len(found[3] or "")) > 19:
            raise self._error("something is repeated more often than can be counted")
        low = int(found[1])
        high = low if not found[2] else int(found[3]) if found[3] else None
        if high is not None and high < low:
            raise self._error(f"a repetition ends at {high} before it begins at {low}")
        if low > MAX_REQUIRED or (high or 0) > MAX_REPEATS:
            raise self._error(f"something is demanded {low:,} times; at most {MAX_REQUIRED:,} are possible")
        self._at = found.end()
        return low, high

    def _literal(self) -> Literal:
        self._at += 1
        characters = []
        while self._peek() != '"':
            characters.append(self._character())
        self._at += 1
        return Literal("".join(map(chr, characters)).encode())

    def _class(self) -> Class:
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        ranges = []
        while self._peek() != "]":
            low = high = self._character()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._character()
            ranges.append((low, high))
        if not ranges:
            raise self._error("a class of characters is empty")
        self._at += 1
        merged = _merged(ranges)
        return Class(_others(merged) if negated else merged)

    def _character(self) -> int:
        """The code point at the place, which is left behind."""
        sign = self._peek()
        self._at += 1
        if sign != "\\":
            return ord(sign)
        kind = self._peek()
        self._at += 1
        if kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        digits = self._text[self._at : self._at + _HEX.get(kind, 0)]
        if not digits or not re.fullmatch(f"[0-9a-fA-F]{{{_HEX[kind]}}}", digits):
            raise self._error("a backslash is followed by something unknown")
        self._at += len(digits)
        code = int(digits, 16)
        if code > _LAST or 0xD800 <= code <= 0xDFFF:
            raise self._error("there is no such character")
        return code

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise self._error("a text in quotes or a class of characters is not closed")
        return self._text[self._at]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = self._new()
        return self._numbers[name]

    def _new(self) -> int:
        self._alternatives.append(None)
        return len(self._alternatives) - 1

    def _take(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self._text, self._at)
        if not found:
            raise self._error(f"{what} was expected")
        self._at = found.end()
        return found[0]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()

    def _step(self, lines: bool) -> None:
        self._at += 1
        self._skip(_SPACE_AND_LINES if lines else _SPACE)

    def _error(self, what: str) -> GrammarError:
        line = self._text.count("\n", 0, self._at) + 1
        return GrammarError(f"The grammar is not valid GBNF: {what} (line {line}).")


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    result: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in ranges if pair[0] <= pair[1]):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def _others(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """What is in none of `ranges`."""
    result, start = [], 0
    for low, high in ranges:
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    return (*result, (start, _LAST)) if start <= _LAST else tuple(result)
