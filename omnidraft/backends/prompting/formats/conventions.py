"""What templates only say in words, or leave to the reader: how models in circulation write thoughts and calls.

Conventions, not models: many share each of these. A call so read must name a tool that was offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnidraft.backends.prompting.formats.pattern import ID, KEY, NAME, atoms
from omnidraft.backends.prompting.formats.shapes import (
    CallShape,
    CodeArguments,
    JsonArguments,
    JsonCalls,
    LooseArguments,
    NamedCalls,
    Pattern,
    TagArguments,
)

_TAG = re.compile(r"<[^<>\s{}'\"%]{1,40}>|\[/?[A-Z_]{3,30}\]")
_THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
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


def is_harmony(source: str) -> bool:
    """Whether answers are made of channels (see `harmony`)."""
    return all(marker in source for marker in ("<|channel|>", "<|message|>", "<|start|>"))


def thoughts(source: str, prompts: Sequence[str]) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """What begins and ends thoughts, as far as the template's text or its prompts mention it; `<think>` if nothing."""
    tags = [tag for text in (*prompts, source) for tag in _TAG.findall(text) if _THINKS.search(tag)]
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


def calls(source: str, alone: bool) -> tuple[CallShape, ...]:
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
        ((*listed, ("[",), *marked), NamedCalls((NAME, "("), LooseArguments(")", "="))),
        ((*tagged, ("<function=",)), NamedCalls((NAME, ">"), parameter)),
        ((("<function=",),), NamedCalls((NAME, ">"), JsonArguments())),
        (_DEEPSEEK, NamedCalls((NAME, "```json"), JsonArguments())),
        (_DEEPSEEK, NamedCalls((NAME, "<｜tool▁sep｜>"), JsonArguments())),
        (marked, NamedCalls((NAME, "[ARGS]"), JsonArguments())),
        (marked, NamedCalls((NAME, "[CALL_ID]", ID, "[ARGS]"), JsonArguments())),
        (marked, NamedCalls((NAME,), JsonArguments())),
        ((("<|python_tag|>",),), NamedCalls((), CodeArguments())),
    ]
    return tuple(CallShape(openings, body, closers) for openings, body in bodies)
