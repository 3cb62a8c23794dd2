"""Which parts of a long text go to a model: the beginning, and those that share the rarest words with what is asked.

BM25, as search engines rank by words. Knows no model, no page and no tokens.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_WORD = re.compile(r"\w+")
_LENGTH = 600  # characters of a passage: a paragraph
_OFTEN, _LONG = 1.2, 0.75  # BM25's usual k1 and b
GAP = "[…]"


def passages(text: str) -> list[str]:
    """`text`, cut at ends of lines into paragraphs of a few hundred characters; longer lines are passages of their
    own, or cut."""
    found, held = [], ""
    for line in text.splitlines(keepends=True):
        if held and len(held) + len(line) > _LENGTH:
            found.append(held)
            held = ""
        held += line
        while len(held) > 2 * _LENGTH:
            found.append(held[:_LENGTH])
            held = held[_LENGTH:]
    return [*found, held] if held else found


def ranked(parts: list[str], question: str) -> list[int]:
    """Indices of the parts that share words with the question, the best first."""
    words = [Counter(_words(part)) for part in parts]
    wanted = set(_words(question))
    lengths = [counts.total() for counts in words]
    usual = sum(lengths) / max(len(parts), 1) or 1.0
    holding = {word: sum(word in counts for counts in words) for word in wanted}
    scores = [
        sum(
            math.log(1 + (len(parts) - holding[word] + 0.5) / (holding[word] + 0.5))
            * counts[word] * (_OFTEN + 1) / (counts[word] + _OFTEN * (1 - _LONG + _LONG * length / usual))
            for word in wanted if counts[word]
        )
        for counts, length in zip(words, lengths, strict=True)
    ]  # fmt: skip
    return sorted((at for at, score in enumerate(scores) if score), key=lambda at: -scores[at])


def chosen(text: str, question: str, most: int) -> str:
    """About `most` characters of `text`, in its order: the first passage, as many as fit of those that share words with
    the question, and more of the beginning where there is room left. "" where none shares a word."""
    parts = passages(text)
    if not (best := ranked(parts, question)):
        return ""
    kept, left = set[int](), most
    for at in dict.fromkeys([0, *best, *range(len(parts))]):
        if left < len(parts[at]):
            break
        kept.add(at)
        left -= len(parts[at]) + len(GAP) + 2
    said, before = [], -1
    for at in sorted(kept):
        said += [f"{GAP}\n"] * (at > before + 1) + [parts[at]]
        before = at
    return "".join([*said, *([GAP] if before < len(parts) - 1 else [])])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
