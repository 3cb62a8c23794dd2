"""The format of a chat template's text, found out once for each from its own renderings.

What stands in renderings of known messages (`probe`) before, between and behind thoughts, content and calls is what the
model writes there too. What no rendering shows comes from `markers`. A template is not trusted: what it writes too
slowly or at too great a length tells nothing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2

from omnidraft.backends.prompting.formats import markers
from omnidraft.backends.prompting.formats.learn_arguments import behind_marks
from omnidraft.backends.prompting.formats.learn_calls import THINKS, Header, learn_calls, learn_header
from omnidraft.backends.prompting.formats.pattern import Between, ChatFormat, Pattern, atoms, groups, is_tag
from omnidraft.backends.prompting.formats.probe import (
    CONTENT,
    FIELDS,
    NAMES,
    SILENT,
    THINKING,
    THOUGHT,
    WAYS,
    Message,
    Probe,
    Render,
)
from omnidraft.backends.prompting.sandbox import SafeTemplate, compile_template

_SECONDS = 3.0  # of the processor's time, for all that a template is asked
_LONGEST = 1 << 15  # characters; those in circulation write up to 7,000 around the few words they are given


def format_of_source(source: str) -> ChatFormat:
    """jinja2.TemplateError if the template is not valid."""
    return format_of(source, compile_template(source), (("bos_token", ""), ("eos_token", "")))


@lru_cache(32)
def format_of(source: str, template: SafeTemplate, special: tuple[tuple[str, str], ...]) -> ChatFormat:
    """special: names and texts of the model's own tokens, as the template knows them."""
    until = time.thread_time() + _SECONDS

    def render(
        messages: list[Mapping[str, Any]], tools: list[Any], add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> str | None:
        if time.thread_time() > until:
            return None
        given = template_variables(messages, tools, add_generation_prompt)
        try:
            text = template.render({**dict(special), **given, **options})
        except jinja2.TemplateError:
            return None
        return text if len(text) <= _LONGEST else None

    return learn_format(render, source)


def template_variables(messages: Any, tools: list[Any], add_generation_prompt: bool) -> dict[str, Any]:
    """What every template is given; some call the tools `functions`, and the date `datetime`."""
    return {
        "messages": messages, "add_generation_prompt": add_generation_prompt, "tools": tools or None,
        "documents": None, "functions": json.dumps(tools, ensure_ascii=False, indent=2) if tools else "",
        "datetime": datetime.now().strftime("%b %d %Y %H:%M:%S"),
    }  # fmt: skip


def learn_format(render: Render, source: str) -> ChatFormat:
    """render: see `Probe`; source: the template's text, for what it only says in words."""
    if markers.is_harmony(source):
        return ChatFormat(header=("<|start|>", "assistant"), harmony=True, field=_field(Probe(render)))
    probe = Probe(render)
    before, behind = _plain(probe)
    asked = probe.prompt(generation=False) or ""
    behind = _only_markers(behind)
    ways: tuple[dict[str, bool], ...] = (THINKING, SILENT, {})
    prompts = [text for options in ways if (text := probe.prompt(generation=True, **options))]
    header = learn_header(asked, before, prompts)
    lead = header.behind(before)
    begins, ends, more = _thoughts(probe, header, lead)
    if not ends:
        rests = list(map(header.begun, prompts))
        begins, ends = _left_out(rests) or markers.thoughts(source, rests)
    lead = behind_marks(lead, (*begins, *ends))
    calls = learn_calls(probe, header, tuple(atoms(behind)), (*begins, *ends))
    marked = any(map(is_tag, atoms(lead)))
    begin_marks = [tuple(atoms(lead))] if marked else []
    return ChatFormat(
        thoughts=Between(begins, ends),
        content=Between(tuple(filter(None, [*begin_marks, more])), groups(atoms(behind))[:1] if marked else ()),
        calls=(*calls, *markers.calls(source, alone=not calls)),
        header=tuple(atoms(header.text)),
        turn_end=tuple(atoms(behind)),
        drops=_drops((*begins, *ends)),
        word="" if marked else lead.lstrip(),
        learned=bool(calls),
        field=_field(probe),
    )


def _field(probe: Probe) -> str:
    """What a message calls its thoughts where the template reads them, "content" where they are a part of that."""
    for name in FIELDS:
        texts = [probe.answer({"content": CONTENT, name: THOUGHT}, **options) for options in (THINKING, {})]
        texts += [probe.called(way, {}, **{name: THOUGHT}) for way in WAYS[:2]]
        if any(text is not None and THOUGHT in text for text in texts):
            return name
    parts = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": CONTENT}]
    text = probe.answer({"content": parts})
    return "content" if text is not None and THOUGHT in text else ""


def _plain(probe: Probe) -> tuple[str, str]:
    """What stands before and behind a plain answer, where the least stands before it."""
    for content in (CONTENT, [{"type": "text", "text": CONTENT}]):
        texts = [probe.answer({"content": content}, **options) for options in (THINKING, {}, SILENT)]
        found = [text.partition(CONTENT) for text in texts if text is not None and CONTENT in text]
        if found:
            before, _, behind = min(found, key=lambda parts: len(parts[0]))
            return before, behind
    return "", ""


def _only_markers(text: str) -> str:
    """Up to where instructions begin that some templates put behind everything."""
    words = re.search(r"\b(\w+\W+){4}", re.sub(r"<[^<>]*>", lambda tag: "\0" * len(tag[0]), text))
    return text if words is None else text[: words.start()]


def _thinking_messages() -> Iterator[Message]:
    yield {"content": CONTENT, **dict.fromkeys(FIELDS, THOUGHT)}
    for name in FIELDS:
        yield {"content": CONTENT, name: THOUGHT}
    for inner in (THOUGHT, [{"type": "text", "text": THOUGHT}]):
        yield {"content": [{"type": "thinking", "thinking": inner}, {"type": "text", "text": CONTENT}]}
    yield {"content": {"blocks": [{"type": "thoughts", "text": THOUGHT}, {"type": "response", "text": CONTENT}]}}


def _thoughts(probe: Probe, header: Header, lead: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...], Pattern]:
    """What thoughts begin and end with, and what more stands between them and content."""
    for text in _with_thoughts(probe):
        before, _, behind = text.partition(THOUGHT)
        begin = header.behind(before)
        if CONTENT in behind:
            between = behind[: behind.find(CONTENT)]
            between = between.removesuffix(lead) if lead else between
            between = between.rstrip().removesuffix(header.text.rstrip() or "\0")
            end = tuple(atoms(between))
        else:
            end = tuple(atoms(behind.partition(NAMES[0])[0]))[:1]
        if not end:
            continue
        first = str(end[0])
        alone = len(end) > 1 and is_tag(first) and (THINKS.search(first) or first[1] == "/")
        ends, more = (end[:1], end[1:]) if alone else (end, ())
        return ((tuple(atoms(begin)),) if atoms(begin) else ()), (ends,), more
    return (), (), ()


def _left_out(prompts: Sequence[str]) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]] | None:
    """What stands around thoughts that a prompt opens and closes at once, so that the model has none."""
    for text in prompts:
        written = tuple(atoms(text))
        if len(written) > 1 and is_tag(written[0]) and is_tag(written[-1]) and THINKS.search(text):
            return (written[:-1],), (written[-1:],)
    return None


def _with_thoughts(probe: Probe) -> Iterator[str]:
    """Answers in which the template shows thoughts."""
    answered = False  # with every field at once, so that the template knows none of them
    for message in _thinking_messages():
        if answered and isinstance(message["content"], str):
            continue
        for options in (THINKING, {}):
            text = probe.answer(message, **options)
            answered = answered or text is not None
            if text is not None and THOUGHT in text:
                yield text
    for way in WAYS[:2]:
        text = probe.called(way, {}, **dict.fromkeys(FIELDS, THOUGHT))
        if text is not None and THOUGHT in text[: text.find(NAMES[0])]:
            yield text


def _drops(marks: Sequence[Pattern]) -> tuple[str, ...]:
    """Markers that nobody writes as text, which are no content where they stand alone."""
    return tuple({str(item): None for mark in marks for item in mark if is_tag(item) and "|" in str(item)})
