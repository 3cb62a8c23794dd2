"""The format of a chat template's text, found out once for each from its own renderings.

What stands in renderings of known messages (`probe`) before, between and behind thoughts, content and calls is what the
model writes there too. What no rendering shows comes from `chat_format`. A template is not trusted: what it writes too
slowly or at too great a length tells nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2

from omnidraft.prompting.formats.chat_format import (
    THINKS,
    Between,
    ChatFormat,
    harmony,
    is_harmony,
    known_calls,
    known_thoughts,
)
from omnidraft.prompting.formats.learn_calls import behind_marks, learn_calls
from omnidraft.prompting.formats.pattern import Pattern, atoms, groups, is_tag
from omnidraft.prompting.formats.probe import (
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
from omnidraft.prompting.rendering import RENDERING

_SECONDS = 3.0  # of the processor's time, for all that a template is asked
_LONGEST = 1 << 15  # characters; those in circulation write up to 7,000 around the few words they are given


@lru_cache(32)
def format_of(source: str, special: tuple[tuple[str, str], ...]) -> ChatFormat:
    """special: names and texts of the model's own tokens, as the template knows them."""
    until = RENDERING.seconds + _SECONDS

    def render(
        messages: list[Mapping[str, Any]], tools: list[Any], add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> str | None:
        if RENDERING.seconds > until:
            return None
        given = template_variables(messages, tools, add_generation_prompt)
        try:
            text = RENDERING.render(source, {**dict(special), **given, **options})
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
    if is_harmony(source):
        return harmony(_field(Probe(render)))
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
        begins, ends = _left_out(rests) or known_thoughts(source, rests)
    lead = behind_marks(lead, (*begins, *ends))
    calls = learn_calls(probe, header.behind, tuple(atoms(behind)), (*begins, *ends))
    marked = any(map(is_tag, atoms(lead)))
    begin_marks = [tuple(atoms(lead))] if marked else []
    return ChatFormat(
        thoughts=Between(begins, ends),
        content=Between(tuple(filter(None, [*begin_marks, more])), groups(atoms(behind))[:1] if marked else ()),
        calls=(*calls, *known_calls(source, alone=not calls)),
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


# What stands right before an answer.


_TOKEN = re.compile(r"\s+|<[^<>\s]*>?|\[[^\[\]\s]*\]?|>+|[^\s<\[>]+")


@dataclass(frozen=True, slots=True)
class Header:
    """asked: what ends the question, whoever speaks next; text: what begins the answer."""

    asked: str
    text: str

    def behind(self, answer: str) -> str:
        """An answer's rendering without what stands before it."""
        own = answer.removeprefix(self.asked)
        at = own.find(self.text)
        return own[at + len(self.text) :] if at >= 0 else own

    def begun(self, prompt: str) -> str:
        """What a prompt itself writes of the answer; it may have instructions before the header."""
        own = prompt.removeprefix(self.asked)
        at = own.rfind(self.text)
        return own[at + len(self.text) :] if at >= 0 else own


def learn_header(asked: str, before: str, prompts: Sequence[str]) -> Header:
    """asked, before, prompts: what stands behind a question without an answer, before a plain one, and in prompts."""
    if asked in prompts:  # the template always begins an answer, asked or not
        asked = ""
    own, given = before.removeprefix(asked), [prompt.removeprefix(asked) for prompt in prompts]
    for group in (given, given[-1:]):
        text = _shared(own, group)
        if text:
            return Header(asked, _unglued(text, [own, *group]))
    return Header(asked, _shared(given[-1], given) if given else "")  # earlier answers are written otherwise


def _shared(own: str, prompts: Sequence[str]) -> str:
    """The first row of words and tags that every prompt has too, up to where thoughts are opened or closed."""
    tokens, rows = _TOKEN.findall(own), list(map(_row, map(_TOKEN.findall, prompts)))
    for start in range(len(tokens)):
        end = start
        while end < len(tokens) and not (tokens[end][0] in "<[" and THINKS.search(tokens[end])):
            if not all(_row(tokens[start : end + 1]) in row for row in rows):
                break
            end += 1
        text = "".join(tokens[start:end])
        if text.strip():
            return text
    return ""


def _row(tokens: Sequence[str]) -> str:
    return "\0" + "".join(f"{token}\0" for token in tokens)


def _unglued(header: str, texts: Sequence[str]) -> str:
    """Without a last tag that belongs to the words behind it, where these are not the same everywhere."""
    rests = {text[text.rfind(header) + len(header) :] for text in texts if header in text} - {""}
    tokens = _TOKEN.findall(header)
    glued = tokens and tokens[-1][0] in "<[" and len(rests) > 1 and all(rest[0].isalnum() for rest in rests)
    return header.removesuffix(tokens[-1]) if glued else header
