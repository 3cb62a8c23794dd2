"""A title for a conversation from its first message, without asking a model."""

from __future__ import annotations

import re
import unicodedata

MAX_TITLE = 60
UNTITLED = "New chat"
_MARKUP = re.compile(r"^(?:[#>*+\-\s]|\d+[.)]\s|```\w*\s*$)+")  # Markdown in front of a line's words


def automatic_title(text: str) -> str:
    """The first line with words in it, on one line, at most MAX_TITLE characters, cut at a word."""
    for line in text.splitlines():
        words = one_line(_MARKUP.sub("", line))
        if any(c.isalnum() for c in words):
            return shorten(words)
    return shorten(one_line(text)) or UNTITLED


def one_line(text: str) -> str:
    """White space runs become one space; control and invisible formatting characters go."""
    spaced = " ".join(text.split())
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs") and c not in DIRECTION).strip()


def shorten(text: str, limit: int = MAX_TITLE) -> str:
    """`text` cut to `limit` characters, the ellipsis included: at a word if one ends in the second half."""
    if len(text) <= limit:
        return text
    cut = limit - 1
    space = text.rfind(" ", limit // 2, cut + 1)
    if space > 0:
        cut = space
    while cut > 1 and _joins(text, cut):
        cut -= 1
    return text[:cut].rstrip(" ,;:.-") + "…"


# Marks that reverse the text around them would also reverse the list a title stands in.
DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _joins(text: str, cut: int) -> bool:
    """The character at `cut` belongs to the one before it: combining mark, skin tone, or a ZWJ on either side."""
    after, before = text[cut], text[cut - 1]
    tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return unicodedata.category(after)[0] == "M" or tone or "\u200d" in (after, before)
