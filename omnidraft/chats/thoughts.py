"""Thoughts of answers, which a model writes in front of them: told by what it writes around them.

marks: what begins thoughts ("" where the prompt did), what ends them, and what stands before an answer without any.
They are stored with the answer, as the model that wrote it may be gone when it is shown again.
"""

from __future__ import annotations

from collections.abc import Sequence

OPEN, CLOSE = "<think>", "</think>"


def parted(text: str, marks: Sequence[str]) -> tuple[str | None, str | None]:
    """(thoughts, answer) of a text; None for thoughts where there are none, and for an answer not yet begun."""
    begin, end, bare = marks
    written = text.lstrip()
    if begin and not written.startswith(begin):
        return None, written.removeprefix(bare) if bare and written.startswith(bare) else text
    thoughts, ended, answer = written.removeprefix(begin).partition(end)
    return thoughts, answer if ended else None


def in_tags(text: str, marks: Sequence[str]) -> str:
    """The text with its thoughts as most models spell them."""
    thoughts, answer = parted(text, marks)
    if thoughts is None:
        return answer or ""
    return f"{OPEN}{thoughts}" + ("" if answer is None else f"{CLOSE}\n\n{answer.lstrip()}")


def said(text: str, marks: Sequence[str] = (OPEN, CLOSE, "")) -> dict[str, str]:
    """What was said as a message for a later turn, its thoughts apart, so that a template can decide about them."""
    thoughts, answer = parted(text, marks)
    if thoughts is None:
        return {"role": "assistant", "content": answer or ""}
    return {"role": "assistant", "content": (answer or "").lstrip(), "reasoning_content": thoughts.strip()}
