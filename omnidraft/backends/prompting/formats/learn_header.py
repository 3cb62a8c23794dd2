"""Finds out from a template's renderings what it writes right before an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
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
