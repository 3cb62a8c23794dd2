"""What the meta data of a message may hold. What is of another type reads as absent: it may come from an import.

Whoever shows an answer or goes on with it relies on this, so a wrong value costs that value, never the conversation.
Names that are not known here stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnidraft.chats.pictures import are_pictures

LARGEST = 2**53  # what every reader of JSON keeps exactly; sums and shares of such numbers overflow nothing
LARGEST_ID = 2**31 - 1
LARGEST_SEED = 2**63 - 1

# The types are compared exactly and all at once: a page reads every message's lists whenever it is shown, and to
# Python a bool would pass for an int.


def sound(meta: Mapping[str, Any]) -> dict[str, Any]:
    """`meta` without the values of known names that nobody could use."""
    kept = {name: value for name, value in meta.items() if name not in _RULES or _RULES[name](value)}
    if "statistics" in kept:
        kept["statistics"] = _sound_statistics(kept["statistics"])
    return kept


def _sound_statistics(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers under their names, but for the one that holds several."""
    counts = lambda value: isinstance(value, Mapping) and all(map(_is_number, value.values()))  # noqa: E731
    return {name: value for name, value in given.items() if (counts if name == "origins" else _is_number)(value)}


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    """A count or a duration."""
    return type(value) in (int, float) and 0 <= value <= LARGEST


def _is_whole(value: Any, largest: int) -> bool:
    return type(value) is int and 0 <= value <= largest


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {str}


def _is_ids(value: Any) -> bool:
    whole = isinstance(value, list) and set(map(type, value)) <= {int}
    return whole and (not value or (min(value) >= 0 and max(value) <= LARGEST_ID))


_RULES: dict[str, Callable[[Any], bool]] = {
    "statistics": lambda value: isinstance(value, Mapping),
    "token_ids": _is_ids,
    "origins": _is_texts,
    "pieces": _is_texts,
    "notices": _is_texts,
    "target": _is_text,
    "finish_reason": _is_text,
    "error": _is_text,
    "note": _is_text,
    "disabled": _is_text,
    "seed": lambda value: _is_whole(value, LARGEST_SEED),
    "plain": _is_number,
    "plain_error": _is_number,
    "thinks": lambda value: isinstance(value, bool),
    "marks": lambda value: _is_texts(value) and len(value) == 3,
    "pictures": are_pictures,
    "partial": lambda value: isinstance(value, bool),
}
