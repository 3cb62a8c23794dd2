"""Words of one's own on a conversation, to find it by: how many, how long, and that none stands twice."""

from __future__ import annotations

import re
from typing import Any

from omnidraft.chats.records import whole_text
from omnidraft.chats.titles import one_line

MAX_TAGS = 12
MAX_LENGTH = 30
_BETWEEN = re.compile("[,;#]")


def tags_of(given: Any) -> tuple[str, ...]:
    """The tags in a list from wherever, in their order; what is no text is passed over, what is too much left out."""
    found: dict[str, str] = {}
    for one in given if isinstance(given, list | tuple) else []:
        if isinstance(one, str) and (tag := one_line(whole_text(one))[:MAX_LENGTH].strip()):
            found.setdefault(tag.casefold(), tag)
    return tuple(found.values())[:MAX_TAGS]


def written_tags(text: str) -> tuple[str, ...]:
    """Tags as a person writes them: between commas, or each behind a `#`."""
    return tags_of(_BETWEEN.split(text))
