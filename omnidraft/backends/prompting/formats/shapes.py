"""What an answer looks like: what stands around thoughts, content and calls. `of_template` finds it, `reader` reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnidraft.backends.prompting.formats.json_scan import Path
from omnidraft.backends.prompting.formats.pattern import NAME, Item

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
