"""Rendered prompts as spans of text and control tokens, where what somebody typed is text whatever it spells.

Markers in what a person or a model wrote are replaced by placeholders before a template renders it, and come back as
text behind it. Knows nothing of token ids beyond the control tokens' own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnidraft.backends.prompting.formats.pattern import is_marker
from omnidraft.backends.prompting.messages import mapped, strings
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.vocabulary import TokenKind

_THOUGHTS = ("<think>", "</think>")
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a rendered prompt: text, or one control token (then `text` is how the template spells it).

    joined: text that goes on from the text before it, cut there because a marker that somebody typed stands across.
    """

    text: str
    control_id: int | None = None
    joined: bool = False

    @property
    def control(self) -> bool:
        return self.control_id is not None


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
        self._marks = sorted({text for text in written if is_marker(text) and text in source})
        self._typed = _alternatives([*self.controls, *self._marks])

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
        pattern = self._typed
        if pattern is None:
            return value
        numbers = {text: number for number, text in enumerate([*self.controls, *self._marks])}
        own = _THOUGHTS if isinstance(value, dict) and value.get("role") == "assistant" else ()
        hide = lambda m: m[0] if m[0] in own else f"{sentinel}{numbers[m[0]]}{sentinel}"  # noqa: E731
        return mapped(value, lambda text: pattern.sub(hide, text))

    def spans(self, rendered: str, sentinel: str) -> list[Span]:
        spans: list[Span] = []
        pieces = self._pattern.split(rendered) if self._pattern else [rendered]
        for index, piece in enumerate(pieces):
            if index % 2:
                spans.append(Span(piece, self.controls[piece]))
            elif piece:
                spans += self._typed_text(piece, sentinel)
        return spans

    def _typed_text(self, piece: str, sentinel: str) -> Iterator[Span]:
        """Text with what was typed in its place; cut within markers that the vocabulary would make one token of."""
        texts = [*self.controls, *self._marks]
        parts = re.split(f"{sentinel}(\\d+){sentinel}", piece)
        text, joined = parts[0].replace(sentinel, ""), False
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


def control_pattern(vocabulary: Vocabulary) -> re.Pattern[str] | None:
    """What finds the control tokens that a text spells; None if there are none."""
    return _alternatives(text for text in vocabulary.controls if text)


def _alternatives(strings: Iterable[str]) -> re.Pattern[str] | None:
    ordered = sorted(strings, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None
