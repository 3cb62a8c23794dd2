"""Compiles rules into positions that a machine can walk: `compile_grammar`.

A position is a byte, a class of characters, the call of a rule, or the end of an alternative. Repetitions become rules
whose number grows with the logarithm of the count, and of which a text is never in more than a few at once, so
`{0,1000000}` costs hardly more than `{0,10}`. Rules that would begin with themselves are refused.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import lru_cache

from omnidraft.backends.prompting.gbnf.limits import MAX_POSITIONS, GrammarError
from omnidraft.backends.prompting.gbnf.parse import Class, Item, Literal, Ref, Repeat, Rules, Sequence, parse
from omnidraft.backends.prompting.gbnf.utf8 import ByteClass

BYTE, CLASS, CALL, END = range(4)
_BASE = 32  # copies that are allowed one by one; more are allowed in blocks of this, of this squared, ...
_EMPTY_COPIES = 64  # copies of what may be empty: each of them may be the one that is not


class Program:
    """kinds, values: of each position; the one behind it follows. starts: of each rule, its alternatives' positions."""

    def __init__(self) -> None:
        self.kinds = array("b")
        self.values = array("l")
        self.starts: list[list[int]] = []
        self.classes: list[ByteClass] = []
        self.root = 0

    def add(self, kind: int, value: int = 0) -> None:
        self.kinds.append(kind)
        self.values.append(value)


@lru_cache(maxsize=16)
def compile_grammar(text: str) -> Program:
    """The program of a grammar; GrammarError if it is none or beyond the limits."""
    rules = parse(text)
    nullable = _nullable(rules)
    _refuse_left_recursion(rules, nullable)
    return _Compiler(rules, nullable).program


def _refs(item: Item) -> Ref | None:
    inner = item.item if isinstance(item, Repeat) else item
    return inner if isinstance(inner, Ref) else None


def _may_be_empty(item: Item, nullable: set[int]) -> bool:
    if isinstance(item, Repeat):
        return item.low == 0 or _may_be_empty(item.item, nullable)
    if isinstance(item, Ref):
        return item.rule in nullable
    return isinstance(item, Literal) and not item.data


def _nullable(rules: Rules) -> set[int]:
    """The rules that may stand for nothing."""
    users: dict[int, set[int]] = defaultdict(set)
    for number, alternatives in enumerate(rules.alternatives):
        for sequence in alternatives:
            for item in sequence:
                if (ref := _refs(item)) is not None:
                    users[ref.rule].add(number)
    found: set[int] = set()
    todo = list(range(len(rules.alternatives)))
    while todo:
        number = todo.pop()
        alternatives = rules.alternatives[number]
        if number not in found and any(all(_may_be_empty(i, found) for i in sequence) for sequence in alternatives):
            found.add(number)
            todo += users[number]
    return found


def _beginnings(alternatives: list[Sequence], nullable: set[int]) -> set[int]:
    """The rules with which a rule may begin."""
    found = set()
    for sequence in alternatives:
        for item in sequence:
            if (ref := _refs(item)) is not None:
                found.add(ref.rule)
            if not _may_be_empty(item, nullable):
                break
    return found


def _refuse_left_recursion(rules: Rules, nullable: set[int]) -> None:
    """Remove rules that begin with no rule that is left, until none is left to remove: what stays runs in circles."""
    begins = [_beginnings(alternatives, nullable) for alternatives in rules.alternatives]
    users: dict[int, list[int]] = defaultdict(list)
    for number, rule in enumerate(begins):
        for other in rule:
            users[other].append(number)
    left = [len(rule) for rule in begins]
    todo = [number for number, count in enumerate(left) if not count]
    removed = 0
    while todo:
        removed += 1
        for user in users[todo.pop()]:
            left[user] -= 1
            if not left[user]:
                todo.append(user)
    if removed < len(begins):
        raise GrammarError("The grammar is not valid GBNF: a rule begins with itself.")


class _Compiler:
    def __init__(self, rules: Rules, nullable: set[int]) -> None:
        self.program = Program()
        self._nullable = nullable
        self._classes: dict[Class, int] = {}
        self._made: dict[tuple, int] = {}
        self._size = 0
        self._todo: list[tuple[int, list[Sequence]]] = []
        self.program.starts = [[] for _ in rules.alternatives]
        self.program.root = rules.root
        for number, alternatives in enumerate(rules.alternatives):
            self._plan(number, alternatives)
        while self._todo:
            number, alternatives = self._todo.pop()
            for sequence in alternatives:
                self._sequence(number, sequence)

    def _plan(self, rule: int, alternatives: list[Sequence]) -> None:
        self._size += sum(1 + len(i.data) if isinstance(i, Literal) else 1 for s in alternatives for i in (*s, END))
        if self._size > MAX_POSITIONS:
            raise GrammarError("The grammar is too large once its repetitions are written out.")
        self._todo.append((rule, alternatives))

    def _sequence(self, rule: int, sequence: Sequence) -> None:
        items = [part for item in sequence for part in self._spelled(item)]
        program = self.program
        program.starts[rule].append(len(program.kinds))
        for item in items:
            if isinstance(item, Literal):
                for byte in item.data:
                    program.add(BYTE, byte)
            elif isinstance(item, Class):
                program.add(CLASS, self._class(item))
            elif isinstance(item, Ref):  # repetitions are spelled out
                program.add(CALL, item.rule)
        program.add(END)

    def _class(self, item: Class) -> int:
        if item not in self._classes:
            self._classes[item] = len(self.program.classes)
            self.program.classes.append(ByteClass(item.ranges))
        return self._classes[item]

    def _spelled(self, item: Item) -> Sequence:
        """`item` without repetitions."""
        if not isinstance(item, Repeat):
            return [item]
        inner, low, high = item.item, item.low, item.high
        if _may_be_empty(inner, self._nullable) and not (high is None or high <= 1):
            if high > _EMPTY_COPIES:
                raise GrammarError(
                    f"The grammar repeats something that may be empty up to {high:,} times; leave the bound out there."
                )
            return [self._one_by_one(inner, high)]
        if _may_be_empty(inner, self._nullable):
            low = 0
        rest = self._any(inner) if high is None else self._up_to(inner, high - low)
        return [*self._exactly(inner, low), *rest]

    def _rule(self, key: tuple, *alternatives: Sequence) -> Ref:
        """A rule made here, or the one made for the same purpose before."""
        if key not in self._made:
            self._made[key] = len(self.program.starts)
            self.program.starts.append([])
            self._plan(self._made[key], list(alternatives))
        return Ref(self._made[key])

    def _any(self, item: Item) -> Sequence:
        key = ("any", item)
        if key not in self._made:
            self._made[key] = number = len(self.program.starts)
            self.program.starts.append([])
            self._plan(number, [[item, Ref(number)], []])
        return [Ref(self._made[key])]

    def _exactly(self, item: Item, count: int) -> Sequence:
        if count <= 4:
            return [item] * count
        key = ("exactly", item, count // 2)
        half = Ref(self._made[key]) if key in self._made else self._rule(key, self._exactly(item, count // 2))
        return [half, half, *([item] if count % 2 else [])]

    def _one_by_one(self, item: Item, count: int) -> Ref:
        """Up to `count` times: each copy and then the rest, or nothing."""
        if (known := self._made.get(("up to", item, count))) is not None:
            return Ref(known)
        ref = self._rule(("up to", item, 0), [])
        for number in range(1, count + 1):
            ref = self._rule(("up to", item, number), [item, ref], [])
        return ref

    def _up_to(self, item: Item, count: int) -> Sequence:
        """Whole blocks, and what is less than one: written so that a count has one reading."""
        if count == 0:
            return []
        if count <= _BASE:
            return [self._one_by_one(item, count)]
        if (known := self._made.get(("up to", item, count))) is not None:
            return [Ref(known)]
        block = _BASE
        while block * _BASE <= count:
            block *= _BASE
        blocks, rest = divmod(count, block)
        less = self._up_to(item, block - 1)
        ref = self._rule(("up to", item, rest), self._up_to(item, rest))
        for number in range(1, blocks + 1):
            key = ("up to", item, number * block + rest)
            ref = self._rule(key, [*self._exactly(item, block), ref], less)
        return [ref]
