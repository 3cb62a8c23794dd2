"""Thoughts of answers whose model does not spell them `<think>`: told by what it writes around them.

marks: what begins thoughts ("" where the prompt did), what ends them, and what stands before an answer without any.
They are stored with the answer, as the model that wrote it may be gone when it is shown again.
"""

from __future__ import annotations

from collections.abc import Sequence

OPEN, CLOSE = "<think>", "</think>"


def parted(text: str, marks: Sequence[str]) -> tuple[str | None, str | None]:
    """(thoughts, answer) of a text; None for thoughts where there are none, and for an answer not yet begun."""
    begin, end, bare = marks
    said = text.lstrip()
    if begin and not said.startswith(begin):
        return None, said.removeprefix(bare) if bare and said.startswith(bare) else text
    thoughts, ended, answer = said.removeprefix(begin).partition(end)
    return thoughts, answer if ended else None


def in_tags(text: str, marks: Sequence[str]) -> str:
    """The text with its thoughts as most models spell them."""
    thoughts, answer = parted(text, marks)
    if thoughts is None:
        return answer or ""
    return f"{OPEN}{thoughts}" + ("" if answer is None else f"{CLOSE}\n\n{answer.lstrip()}")


def without(text: str, marks: Sequence[str]) -> str:
    """The answer alone, as a later turn reads it."""
    return parted(text, marks)[1] or ""
