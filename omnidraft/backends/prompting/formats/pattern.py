"""Literal text with gaps in it, as a template writes it around a call, found again in what a model writes.

White space between the parts of a pattern is the model's to choose. Knows nothing of calls or templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from omnidraft.backends.prompting.formats.json_values import Path

MORE = object()  # what has come so far may become a match
_ATOM = re.compile(r"<[^<>\s]*>?|\[[^\[\]\s<]*\]?|[^\s<\[>]+>*|>+")
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


def atoms(text: str) -> list[str]:
    """The parts of a literal that white space may stand between: tags, bracketed words, runs of anything else."""
    return _ATOM.findall(text)


def pieces(parts: Iterable[Item]) -> tuple[Item, ...]:
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


def match(pattern: Sequence[Item], text: str, at: int, final: bool) -> Match | object | None:
    """The pattern at `at`; MORE if the text ends before that is known; None if it does not stand there."""
    gaps: dict[str, str] = {}
    for index, item in enumerate(pattern):
        if index:
            at = skip_space(text, at)
        if isinstance(item, Gap):
            end = _gap_end(item, pattern[index + 1 :], text, at)
            if end == len(text) and not final and end - at < _LONGEST_GAP:
                return MORE
            if end == at and item.kind in ("name", "key", "number"):
                return None
            gaps[item.kind] = text[at:end]
            at = end
        elif text.startswith(item, at):
            at += len(item)
        else:
            return MORE if not final and item.startswith(text[at:]) else None
    return Match(at, gaps)


def _gap_end(gap: Gap, following: Sequence[Item], text: str, at: int) -> int:
    end = _RUNS[gap.kind].match(text, at).end()  # type: ignore[union-attr]
    if following and isinstance(following[0], str):
        stop = text.find(following[0], at, end)
        return end if stop < 0 else stop
    return end


def skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    return next((n for n in range(min(len(marker) - 1, len(text)), 0, -1) if text.endswith(marker[:n])), 0)


def ends(pattern: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """The pattern, and what is left of it from each of its first tags on: models forget what stands in front."""
    for index, item in enumerate(pattern[:_FORGOTTEN]):
        if isinstance(item, str) and (index == 0 or is_tag(item)):
            yield tuple(pattern[index:])


def groups(items: Sequence[Item]) -> tuple[tuple[Item, ...], ...]:
    """Tags and signs, each with the plain words behind it, which mean nothing without it."""
    found: list[list[Item]] = []
    for item in items:
        word = isinstance(item, Gap) or (item[0].isalnum() and not is_tag(item))
        if word and found:
            found[-1].append(item)
        elif not word:
            found.append([item])
    return tuple(map(tuple, found))


# What an answer looks like: what stands around thoughts, content and calls. `of_template` finds it, `reader` reads.


Pattern = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Each call is one JSON object, perhaps in a list.

    names, arguments, ids: where they may stand in it, at least where many models put them; keyed: its only key is the
    name, its value the arguments; others: what else it may have.
    """

    names: frozenset[Path] = frozenset(
        (("name",), ("tool_name",), ("function",), ("tool",), ("action",), ("function", "name"))
    )
    arguments: frozenset[Path] = frozenset(
        (("arguments",), ("parameters",), ("args",), ("input",), ("action_input",),
         ("function", "arguments"), ("function", "parameters"))
    )  # fmt: skip
    ids: frozenset[Path] = frozenset((("id",), ("tool_call_id",)))
    keyed: bool = False
    others: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """The arguments are one JSON object behind the name."""


@dataclass(frozen=True, slots=True)
class TagArguments:
    """Every argument stands between tags. Strings are written as they are.

    begin, key_end, end: what stands before a name (KEY), between it and its value, and behind the value; space_*: the
    white space of the template at the value's two ends; text_word: what a WORD in `key_end` says of strings; done:
    what follows the last argument.
    """

    begin: Pattern
    key_end: Pattern
    end: Pattern
    space_before: str = ""
    space_behind: str = ""
    text_word: str | None = None
    done: Pattern = ()


@dataclass(frozen=True, slots=True)
class LooseArguments:
    """As in Python's calls or in objects with bare keys: up to `closer`; `assign` stands between name and value."""

    closer: str
    assign: str
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeArguments:
    """All that follows is a program, the one argument of the tool that runs it."""


Arguments = JsonArguments | TagArguments | LooseArguments | CodeArguments


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """The name stands outside of the arguments; `head` is what leads from the call's beginning to its arguments.

    Without a NAME in it, the call is one of the tool that runs code.
    """

    head: Pattern = (NAME,)
    arguments: Arguments = field(default_factory=JsonArguments)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One call, letter by letter: what stands before the name, between it and the arguments, and behind them.

    tags: what stands before each argument's name, between it and its value, and behind, strings being written as they
    are, everything else as JSON; None: they are one JSON object.
    """

    before: str
    between: str
    behind: str
    tags: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class CallShape:
    """openings: what may stand in front of the first call; closers: what may stand behind each; written: see there."""

    openings: tuple[Pattern, ...]
    body: JsonCalls | NamedCalls
    closers: tuple[Pattern, ...] = ()
    written: WrittenCall | None = None


@dataclass(frozen=True, slots=True)
class Between:
    """What stands before and behind something: begun by any of `begins`, ended by any of `ends`."""

    begins: tuple[Pattern, ...] = ()
    ends: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """All that is known about a model's answers.

    header: what the template writes before an answer, without thoughts that it opens; turn_end: what ends an answer;
    drops: markers that are no content wherever they stand; word: a plain word in front of content (`all` and a line's
    end); learned: the calls were seen in a rendering; field: what a message calls its thoughts, "content" where they
    are a part of that; harmony: the answer is made of channels.
    """

    thoughts: Between = Between()
    content: Between = Between()
    calls: tuple[CallShape, ...] = ()
    header: Pattern = ()
    turn_end: Pattern = ()
    drops: tuple[str, ...] = ()
    word: str = ""
    learned: bool = False
    field: str = ""
    harmony: bool = False

    def literals(self) -> list[str]:
        """Everything that the model writes around thoughts, content and calls."""
        if self.harmony:
            return ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"]
        patterns = [*self.thoughts.begins, *self.thoughts.ends, *self.content.begins, *self.content.ends]
        for shape in self.calls:
            body = shape.body
            patterns += [*shape.openings, *shape.closers, *([body.head] if isinstance(body, NamedCalls) else [])]
            if isinstance(body, NamedCalls) and isinstance(body.arguments, TagArguments):
                arguments = body.arguments
                patterns += [arguments.begin, arguments.key_end, arguments.end, arguments.done]
            elif isinstance(body, NamedCalls) and isinstance(body.arguments, LooseArguments):
                patterns.append(body.arguments.quotes)
        return ["".join(item for item in pattern if isinstance(item, str)) for pattern in patterns]
