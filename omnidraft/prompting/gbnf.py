"""GBNF, llama.cpp's notation for grammars, rewritten in the one that `llguidance` reads: `gbnf_to_lark`.

Where no rule comes back to itself, the whole grammar becomes one regular expression. Otherwise every character becomes
a token of its own: a longer one takes as much as it can, which GBNF's parts do not. Brackets become rules, so that
nothing here has to descend, and rules that never end are refused. llguidance's own converter takes such grammars,
confuses rules whose names differ in case, and writes nested repetitions that cannot be read.
Notation: llama.cpp, grammars/README.md. Knows nothing of tokens or vocabularies.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from omnidraft.errors import GrammarError
from omnidraft.format import size

_MAX_LENGTH = 256_000  # bytes of text
_MAX_NESTING = 500  # brackets inside each other
_MAX_REQUIRED = 100_000  # times something may be demanded: an answer has to get there
_MAX_REPEATS = 1_000_000  # times something may be allowed: llguidance counts to 2**31
_MAX_REGULAR = 1000  # items of one regular expression: it nests as deep as they do
_TOKEN = re.compile(
    r"""[ \t\r\n]+ | \#[^\r\n]* | (?P<rule>[a-zA-Z0-9-]+)\s*::= | (?P<name>[a-zA-Z0-9-]+)
    | "(?P<text>(?:[^"\\]|\\.)*)" | \[(?P<chars>(?:[^\]\\]|\\.)*)\] | (?P<sign>[.()|])
    | (?P<times>[*+?] | \{\s*\d+\s*(?:,\s*\d*\s*)?\})""",
    re.VERBOSE | re.DOTALL,
)
_CHARACTER = re.compile(
    r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([trn\\\"\[\]-])|([^\\])", re.DOTALL
)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}
_LAST = 0x10FFFF
_ANY = r"[\x{1}-\x{10FFFF}]"  # no text has a null
_NEGATED = r"^\x{0}"


@dataclass(slots=True)
class _Item:
    """characters: what is spelled, each as a regular expression; or rule: the number of one.

    It comes low to high times (None: as often as one likes).
    """

    characters: list[str]
    rule: int | None = None
    low: int = 1
    high: int | None = 1


_Rule = list[list[_Item]]  # alternatives


def gbnf_to_lark(text: str) -> str:
    """The same grammar with `start` for its `root`; GrammarError if it is none, or beyond the limits."""
    if not text.strip():
        raise GrammarError("The grammar is empty.")
    if len(text.encode("utf-8", "replace")) > _MAX_LENGTH:
        raise GrammarError(f"The grammar is longer than {size(_MAX_LENGTH)}.")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise GrammarError("The grammar holds characters that no text can have.")
    rules, root = _Parser(text).rules()
    regular = _checked(rules)
    names = [f"{'R' if regular else 'r'}{number}" for number in range(len(rules))]
    lines = (
        f"{name}: {' | '.join(_sequence(part, names, regular) for part in rule)}"
        for name, rule in zip(names, rules, strict=True)
    )
    return "\n".join([f"start: {names[root]}", *lines])


def _sequence(items: list[_Item], names: list[str], regular: bool) -> str:
    return " ".join(_written(item, names, regular) for item in items) or '""'


def _written(item: _Item, names: list[str], regular: bool) -> str:
    if item.rule is not None:
        body = names[item.rule]
    elif not item.characters:
        return '""'
    else:
        body = f"/{''.join(item.characters)}/" if regular else " ".join(f"/{c}/" for c in item.characters)
    if (item.low, item.high) == (1, 1):
        return body
    return f"({body}){{{item.low},{'' if item.high is None else item.high}}}"


def _checked(rules: list[_Rule]) -> bool:
    """Whether the grammar is regular; GrammarError for rules that never end."""
    if len(_ending(rules)) < len(rules):
        raise GrammarError("The grammar is not valid GBNF: a rule never ends.")
    inner = [{item.rule for part in rule for item in part if item.rule is not None} for rule in rules]
    try:
        TopologicalSorter(dict(enumerate(inner))).prepare()
    except CycleError:
        return False
    return sum(len(part) for rule in rules for part in rule) <= _MAX_REGULAR


def _ending(rules: list[_Rule]) -> set[int]:
    """The rules with an alternative all of whose items end."""
    users: dict[int, set[int]] = defaultdict(set)
    for number, rule in enumerate(rules):
        for item in (item for part in rule for item in part if item.rule is not None):
            users[item.rule].add(number)  # type: ignore[index]
    found: set[int] = set()
    todo = list(range(len(rules)))
    while todo:
        number = todo.pop()
        ends = (all(i.low == 0 or i.rule is None or i.rule in found for i in part) for part in rules[number])
        if number not in found and any(ends):
            found.add(number)
            todo += users[number]
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._numbers: dict[str, int] = {}
        self._rules: list[_Rule | None] = []

    def rules(self) -> tuple[list[_Rule], int]:
        """All rules, and the number of the one named root."""
        open_: list[_Rule] = []  # the rule that is read, and the brackets in it
        for found in self._tokens():
            kind, value = found.lastgroup, found[found.lastgroup or 0]
            if kind == "rule":
                self._closed(open_)
                number = self._number(value)
                if self._rules[number] is not None:
                    raise self._error(f"the rule {value[:100]} is there twice")
                open_ = [[[]]]
                self._rules[number] = open_[0]
            elif kind is not None:
                if not open_:
                    raise self._error("::= is missing")
                self._take(kind, value, open_)
        self._closed(open_)
        return self._complete()

    def _complete(self) -> tuple[list[_Rule], int]:
        if "root" not in self._numbers:
            raise GrammarError("The grammar is not valid GBNF: it has no rule named root.")
        for name, number in self._numbers.items():
            if self._rules[number] is None:
                raise GrammarError(f"The grammar is not valid GBNF: there is no rule named {name[:100]}.")
        return [rule for rule in self._rules if rule is not None], self._numbers["root"]

    def _tokens(self) -> Iterator[re.Match[str]]:
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self._unknown(self._text[self._at])
            yield found
            self._at = found.end()

    def _unknown(self, sign: str) -> GrammarError:
        return self._error({
            '"': "a text in quotes is not closed",
            "[": "a class of characters is not closed",
            "<": "tokens cannot be named (<...>); write what they spell in quotes",
            "{": "a repetition is written {2}, {2,} or {2,5}",
        }.get(sign, f"{sign} has no meaning here"))  # fmt: skip

    def _take(self, kind: str, value: str, open_: list[_Rule]) -> None:
        """Add a token to the innermost bracket."""
        alternatives = open_[-1]
        if kind == "name":
            alternatives[-1].append(_Item([], self._number(value)))
        elif kind == "text":
            alternatives[-1].append(_Item([_spelled(code) for _, code in self._characters(value)]))
        elif kind == "chars":
            alternatives[-1].append(_Item([self._class(value)]))
        elif kind == "times":
            self._repeat(value, alternatives[-1])
        elif value == ".":
            alternatives[-1].append(_Item([_ANY]))
        elif value == "|":
            alternatives.append([])
        elif value == "(":
            if len(open_) > _MAX_NESTING:
                raise GrammarError(f"The grammar nests more than {_MAX_NESTING} brackets.")
            open_.append([[]])
        else:
            self._close(open_)

    def _close(self, open_: list[_Rule]) -> None:
        if len(open_) < 2:
            raise self._error("a bracket is closed that was not opened")
        self._rules.append(open_.pop())
        open_[-1][-1].append(_Item([], len(self._rules) - 1))

    def _closed(self, open_: list[_Rule]) -> None:
        if len(open_) > 1:
            raise self._error("a bracket is not closed")

    def _repeat(self, sign: str, sequence: list[_Item]) -> None:
        if not sequence:
            raise self._error(f"nothing stands before {sign[0]}")
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._counts(sign)
        item = sequence.pop()
        if (item.low, item.high) != (1, 1):
            self._rules.append([[item]])
            item = _Item([], len(self._rules) - 1)
        sequence.append(_Item(item.characters, item.rule, low, high))

    def _counts(self, sign: str) -> tuple[int, int | None]:
        least, comma, most = (part.strip() for part in sign[1:-1].partition(","))
        if max(len(least), len(most)) > 18:
            raise self._error("something is repeated more often than can be counted")
        low = int(least)
        high = low if not comma else int(most) if most else None
        if high is not None and high < low:
            raise self._error(f"a repetition ends at {high} before it begins at {low}")
        if low > _MAX_REQUIRED:
            raise self._error(f"something is demanded {low:,} times; at most {_MAX_REQUIRED:,} are possible")
        if (high or 0) > _MAX_REPEATS:
            raise self._error(f"something is allowed {high:,} times; at most {_MAX_REPEATS:,} are possible")
        return low, high

    def _class(self, value: str) -> str:
        """A class of characters as a regular expression."""
        negated = value.startswith("^")
        parts = list(self._characters(value[negated:]))
        ranges, at = [], 0
        while at < len(parts):
            first, last = parts[at], parts[at]
            if at + 2 < len(parts) and parts[at + 1][0] == "-":
                last = parts[at + 2]
                at += 2
            if last[1] < first[1]:
                raise self._error(f"the range {first[0]}-{last[0]} runs backwards")
            ranges.append(f"{_spelled(first[1])}-{_spelled(last[1])}")
            at += 1
        if not ranges:
            raise self._error("a class of characters is empty")
        return f"[{_NEGATED if negated else ''}{''.join(ranges)}]"

    def _characters(self, value: str) -> Iterator[tuple[str, int]]:
        """What stands in quotes or in a class, character by character: as it is written, and its code point."""
        at = 0
        while at < len(value):
            found = _CHARACTER.match(value, at)
            if found is None:
                raise self._error("a backslash is followed by something unknown")
            at = found.end()
            digits = found[1] or found[2] or found[3]
            code = int(digits, 16) if digits else ord(_ESCAPES.get(found[4], found[4] or found[5]))
            if code > _LAST or 0xD800 <= code <= 0xDFFF:
                raise self._error("there is no such character")
            yield found[0], code

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._rules)
            self._rules.append(None)
        return self._numbers[name]

    def _error(self, what: str) -> GrammarError:
        line = self._text.count("\n", 0, self._at) + 1
        return GrammarError(f"The grammar is not valid GBNF: {what} (line {line}).")


def _spelled(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else f"\\x{{{code:X}}}"
