"""What an answer looks like, and what is read from it.

`ChatFormat` says what stands around thoughts, content and calls. `of_template` finds that out; what no rendering shows
are the conventions of models in circulation, which are at this file's end. `reader` reads, and tells `Event`s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from omnidraft.prompting.formats.pattern import ID, KEY, NAME, WORD, Pattern, atoms


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Each call is one JSON object, perhaps in a list.

    names, arguments: the keys they may have in it or in an object in it, at least those that many models give them;
    others: what else it may have; keyed: its only key is the name, its value the arguments.
    """

    names: frozenset[str] = frozenset(("name", "tool_name", "function", "tool", "action"))
    arguments: frozenset[str] = frozenset(("arguments", "parameters", "args", "input", "action_input"))
    others: frozenset[str] = frozenset(("type", "index", "id", "tool_call_id"))
    keyed: bool = False

    @property
    def keys(self) -> frozenset[str]:
        return self.names | self.arguments | self.others


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
    """As in Python's calls or in objects with bare keys, up to `closer`; quote: a model's own, besides ' and "."""

    closer: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """The name stands outside of the arguments; `head` is what leads from the call's beginning to its arguments.

    arguments: None for one JSON object. Without a `head`, all that follows is a program, the one argument of the tool
    that runs code.
    """

    head: Pattern = (NAME,)
    arguments: TagArguments | LooseArguments | None = None


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

    hidden: messages to others than the user and the tools that were offered; header: what the template writes before an
    answer, without thoughts that it opens; turn_end: what ends an answer; drops: markers that are no content wherever
    they stand; word: a plain word in front of content (`all` and a line's end); learned: the calls were seen in a
    rendering; field: what a message calls its thoughts, "content" where they are a part of that; harmony: the answer is
    made of channels.
    """

    thoughts: Between = Between()
    content: Between = Between()
    hidden: Between = Between()
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
        patterns = [*self.thoughts.begins, *self.thoughts.ends, *self.content.begins, *self.content.ends]
        for shape in self.calls:
            body = shape.body
            patterns += [*shape.openings, *shape.closers, *([body.head] if isinstance(body, NamedCalls) else [])]
            if isinstance(body, NamedCalls) and isinstance(body.arguments, TagArguments):
                arguments = body.arguments
                patterns += [arguments.begin, arguments.key_end, arguments.end, arguments.done]
            elif isinstance(body, NamedCalls) and isinstance(body.arguments, LooseArguments):
                patterns.append((body.arguments.quote,))
        return ["".join(item for item in pattern if isinstance(item, str)) for pattern in patterns]


# What is read from an answer: thoughts and content as they come, calls when they are whole.


@dataclass(frozen=True, slots=True)
class Thoughts:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. arguments: a JSON object, as text; whole: it was not cut off, they are not just as far as they
    came."""

    name: str
    arguments: str
    whole: bool = True


Event = Thoughts | Content | Call


@dataclass(slots=True)
class Reading:
    """All that was read of one answer."""

    reasoning: str = ""
    content: str = ""
    calls: list[Call] = field(default_factory=list)


def collect(events: Sequence[Event]) -> Reading:
    """The events of an answer, put together."""
    return Reading(
        "".join(event.text for event in events if isinstance(event, Thoughts)),
        "".join(event.text for event in events if isinstance(event, Content)),
        [event for event in events if isinstance(event, Call)],
    )


# What templates only say in words, or leave to the reader: how models in circulation write thoughts and calls.
# Conventions, not models: many share each of these. A call so read must name a tool that was offered.


_TAG = re.compile(r"<[^<>\s{}'\"%]{1,40}>|\[/?[A-Z_]{3,30}\]")
THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
_BEGINNINGS = {"END_": "START_", "end_of_": "begin_of_", "end▁of▁": "begin▁of▁", "end_": "begin_"}
_ENDINGS = re.compile("|".join(_BEGINNINGS))
# Markers of calls, and what closes them.
_WRAPPERS = (
    ("<tool_call>", "</tool_call>"), ("<tool_calls>", "</tool_calls>"), ("<TOOLCALL>", "</TOOLCALL>"),
    ("<|tool_call|>", "<|/tool_call|>"), ("<|tool_call|>", "</|tool_call|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<function_call>", "</function_call>"), ("<functioncall>", "</functioncall>"), ("[TOOL_CALLS]", ""),
    ("<|action_start|><|plugin|>", "<|action_end|>"), ("<|python_tag|>", ""), ("functools", ""),
    ("<|function_call|>", ""), ("<start_function_call>", "<end_function_call>"), ("<|tool_calls|>", "<|/tool_calls|>"),
    ("<tools>", "</tools>"), ("```tool_call", "```"), ("```tool_code", "```"),
)  # fmt: skip
_DEEPSEEK = (
    ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function", "<｜tool▁sep｜>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
)
_DEEPSEEK_CLOSERS = ("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")


# Answers made of channels: `<|channel|>analysis<|message|>...<|end|><|start|>assistant...`. After OpenAI's description
# of the format (https://github.com/openai/harmony, docs/format.md): a message is a header of role, recipient and
# channel, then its content. `analysis` is thought, `final` the answer, `commentary` without a recipient what is said on
# the way; a message to `functions.NAME` is a call, on whatever channel.

# Thoughts begin, thoughts end, and an answer begins without any.
THOUGHT_MARKS = (
    "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
)
_ROLE: Pattern = ("<|start|>", "assistant")
_FORMS: tuple[Pattern, ...] = ((WORD, "<|message|>"), ("<|constrain|>", WORD, "<|message|>"))
_ENDS: tuple[Pattern, ...] = (("<|end|>",), ("<|call|>",), ("<|return|>",))
# The recipient stands behind the channel, or behind the role and before it: what leads to it, and what follows.
_BEHIND_CHANNEL: tuple[tuple[Pattern, ...], Pattern] = ((("<|channel|>", WORD, "to="),), ())
_BEHIND_ROLE: tuple[tuple[Pattern, ...], Pattern] = ((("to=",), (*_ROLE, "to=")), ("<|channel|>", WORD))


def is_harmony(source: str) -> bool:
    """Whether answers are made of channels."""
    return all(marker in source for marker in ("<|channel|>", "<|message|>", "<|start|>"))


def harmony(field: str) -> ChatFormat:
    """The format of such answers; field: see `ChatFormat`."""
    headed = [(tos, (*lead, *form)) for tos, lead in (_BEHIND_CHANNEL, _BEHIND_ROLE) for form in _FORMS]
    headers = [("<|channel|>", WORD), ("<|channel|>", WORD, "to=", "assistant")]
    headers += [("<|channel|>", WORD, *form) for form in _FORMS]
    headers += [(*to, "functions.", NAME, *head) for tos, head in headed for to in tos]
    return ChatFormat(
        thoughts=Between((("<|channel|>", "analysis", "<|message|>"),), _ENDS[:1]),
        content=Between(tuple(headers), _ENDS),
        hidden=Between(tuple((*to, NAME, *head) for tos, head in headed for to in tos), _ENDS),
        calls=tuple(CallShape(tos, NamedCalls((NAME, *head)), _ENDS) for tos, head in headed),
        header=_ROLE, field=field, harmony=True,
    )  # fmt: skip


def known_thoughts(source: str, prompts: Sequence[str]) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """What begins and ends thoughts, as far as the template's text or its prompts mention it; `<think>` if nothing."""
    tags = [tag for text in (*prompts, source) for tag in _TAG.findall(text) if THINKS.search(tag)]
    for closer in tags:
        opener = _opener(closer)
        if opener is not None:
            return ((opener,),), ((closer,),)
    for opener in tags:
        if opener[1] not in "/|" and opener[0] == "<":
            return ((opener,),), ((f"</{opener[1:]}",),)
    return (("<think>",),), (("</think>",),)


def _opener(closer: str) -> str | None:
    """The marker that one which closes belongs to."""
    if "/" in closer[:3]:
        return closer.replace("/", "", 1)
    found = _ENDINGS.search(closer)
    return closer.replace(found[0], _BEGINNINGS[found[0]], 1) if found else None


def known_calls(source: str, alone: bool) -> tuple[CallShape, ...]:
    """Every known way to write a call; those whose markers the template mentions first.

    alone: nothing else is known, so that calls may also begin without any marker.
    """
    ends = dict.fromkeys(closer for _, closer in _WRAPPERS if closer)
    closers = tuple((closer,) for closer in (*ends, *_DEEPSEEK_CLOSERS, "</function>", "```", "]", ",", ";"))
    begins = sorted((opener for opener, _ in _WRAPPERS), key=lambda opener: opener not in source)
    marked = tuple(dict.fromkeys(tuple(atoms(opener)) for opener in begins))
    listed = tuple((*opener, "[") for opener in marked)
    tagged = tuple((*opener, "<function=") for opener in marked)
    parameter = TagArguments(("<parameter=", KEY), (">",), ("</parameter>",), "\n", "\n", None, ("</function>",))
    bodies: list[tuple[tuple[Pattern, ...], JsonCalls | NamedCalls]] = [
        ((*marked, *(((),) if alone else ())), JsonCalls()),
        ((*listed, ("[",), *marked), NamedCalls((NAME, "("), LooseArguments(")"))),
        ((*tagged, ("<function=",)), NamedCalls((NAME, ">"), parameter)),
        ((("<function=",),), NamedCalls((NAME, ">"))),
        (_DEEPSEEK, NamedCalls((NAME, "```json"))),
        (_DEEPSEEK, NamedCalls((NAME, "<｜tool▁sep｜>"))),
        (marked, NamedCalls((NAME, "[ARGS]"))),
        (marked, NamedCalls((NAME, "[CALL_ID]", ID, "[ARGS]"))),
        (marked, NamedCalls((NAME,))),
        ((("<|python_tag|>",),), NamedCalls(())),
    ]
    return tuple(CallShape(openings, body, closers) for openings, body in bodies)
