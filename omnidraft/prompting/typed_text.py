"""Rendered prompts as spans of text and control tokens, where what somebody typed is text whatever it spells.

Markers in what a person or a model wrote are replaced by placeholders before a template renders it, and come back as
text behind it. Knows nothing of token ids beyond the control tokens' own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from omnidraft.prompting.formats.pattern import is_marker
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.vocabulary import TokenKind

_THOUGHTS = ("<think>", "</think>")
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a rendered prompt: text, or one control token (then `text` is how the template spells it).

    joined: text that goes on from the text before it, cut there because a marker that somebody typed stands across, or
    behind an answer. own: the ids that an answer was written with, which spell the text (own_ids.py).
    """

    text: str
    control_id: int | None = None
    joined: bool = False
    own: tuple[int, ...] = ()

    @property
    def control(self) -> bool:
        return self.control_id is not None

    @property
    def ids(self) -> tuple[int, ...]:
        """Its ids, where they are known without a tokenizer."""
        return self.own if self.control_id is None else (self.control_id,)


class TypedText:
    """Tells apart what was typed and what a template with this `source` writes.

    controls: ids of the control tokens, by how they are spelled.
    """

    def __init__(self, vocabulary: Vocabulary, source: str) -> None:
        self.controls = {text: id for text, id in vocabulary.controls.items() if text}
        self._source = source
        self._pattern = _alternatives(self.controls)
        # Typed by somebody, these stay text as well: the template's markers that the vocabulary has as text.
        own = np.flatnonzero(vocabulary.kinds == TokenKind.USER_DEFINED).tolist()
        written = (vocabulary.pieces[id].decode("utf-8", "replace") for id in own)
        marks = sorted({text for text in written if is_marker(text) and text in source})
        self._numbers = {text: number for number, text in enumerate([*self.controls, *marks])}
        self._typed = _alternatives(self._numbers)

    def sentinel(self, values: Any) -> str:
        texts = [self._source, *strings(values)]
        used = set().union(*texts)
        free = next((chr(code) for code in _PRIVATE_USE if chr(code) not in used), None)
        while free is None:  # all of them are in use: then three in a row that nobody could foresee
            row = "".join(chr(secrets.choice(_PRIVATE_USE)) for _ in range(3))
            free = row if not any(row in text for text in texts) else None
        return free

    def hidden(self, value: Any, sentinel: str) -> Any:
        """`value` with every marker in it spelt as sentinel, number, sentinel. The model's own thoughts keep theirs:
        templates look for them in earlier answers, to leave them out."""
        own = _THOUGHTS if isinstance(value, dict) and value.get("role") == "assistant" else ()
        hide = lambda m: m[0] if m[0] in own else f"{sentinel}{self._numbers[m[0]]}{sentinel}"  # noqa: E731
        return mapped(value, lambda text: self._typed.sub(hide, text))

    def shown(self, rendered: str, sentinel: str) -> str:
        """A text with what was typed in its place."""
        return "".join(span.text for span in self._typed_text(rendered, sentinel, False))

    def spans(self, rendered: str, sentinel: str, joined: bool = False) -> list[Span]:
        """joined: whether it goes on from a text before it."""
        spans: list[Span] = []
        for span in control_spans(rendered, self.controls, self._pattern):
            spans += [span] if span.control else self._typed_text(span.text, sentinel, joined and not spans)
        return spans

    def _typed_text(self, piece: str, sentinel: str, joined: bool) -> Iterator[Span]:
        """Text with what was typed in its place; cut within markers that the vocabulary would make one token of."""
        texts = list(self._numbers)
        parts = re.split(f"{sentinel}(\\d+){sentinel}", piece)
        text = parts[0].replace(sentinel, "")
        for number, behind in zip(parts[1::2], parts[2::2], strict=True):
            typed = texts[int(number)]
            if typed in self.controls:
                text += typed
            else:
                yield Span(text + typed[:1], joined=joined)
                text, joined = typed[1:], True
            text += behind.replace(sentinel, "")
        if text:
            yield Span(text, joined=joined)


def control_spans(text: str, controls: Mapping[str, int], pattern: re.Pattern[str] | None = None) -> Iterator[Span]:
    """The control tokens that a text spells, and what stands between them."""
    for at, part in enumerate((pattern or _alternatives(controls)).split(text)):
        if part:
            yield Span(part, controls[part] if at % 2 else None)


def _alternatives(strings: Iterable[str]) -> re.Pattern[str]:
    ordered = sorted(filter(None, strings), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, ordered)) or '(?!)'})")


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every string in it changed, names of entries included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mapped(inner, change) for inner in value]
    return value


def strings(value: Any) -> Iterator[str]:
    """Every string in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        yield from chain.from_iterable(map(strings, value.values()))
    elif isinstance(value, (list, tuple)):
        yield from chain.from_iterable(map(strings, value))
