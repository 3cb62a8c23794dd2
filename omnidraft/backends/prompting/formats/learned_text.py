"""A rendering's literal text as a pattern: gaps where the words of the probe stand, and where numbers count."""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnidraft.backends.prompting.formats.pattern import ID, KEY, NAME, NUMBER, Item, Match, match, pieces
from omnidraft.backends.prompting.formats.probe import IDS, KEYS, NAMES, named_id

_NAMED = [named_id(index) for index in range(len(NAMES))]
_GAPS = re.compile("|".join([*map(re.escape, [*_NAMED, *NAMES, *IDS, *KEYS]), r"(?<!\w)[0-9]+(?!\w)"]))


def gapped(text: str) -> tuple[Item, ...]:
    """The text's atoms and gaps."""
    parts: list[Item] = []
    at = 0
    for found in _GAPS.finditer(text):
        word = found[0]
        gap = KEY if word in KEYS else ID if word in IDS else NUMBER if word.isdigit() else NAME
        parts += [text[at : found.start()], gap]
        at = found.end()
    return pieces([*parts, text[at:]])


def behind_marks(text: str, marks: Sequence[Sequence[Item]]) -> str:
    """What stands behind the last of the marks."""
    for mark in marks:
        at = text.rfind(str(mark[0]))
        while at >= 0:
            found = match(mark, text, at, True)
            if isinstance(found, Match):
                text = text[found.end :]
                break
            at = text.rfind(str(mark[0]), 0, at)
    return text
