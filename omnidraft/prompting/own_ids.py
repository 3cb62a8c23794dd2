"""The ids with which earlier answers stand in a prompt: those they were written with, where the conversation has them.

An answer's ids are a property of the conversation, stored with it, and never of what a cache happens to hold; where
there are none, its text is tokenized. Where in a rendered prompt an answer stands is found by rendering it once more
with a mark in its place; what is rendered never depends on that. Knows nothing of jinja2 or of how ids are stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnidraft.vocab import Vocabulary

KEY = "spelled"  # of an assistant's message: `Spelled`, what its text was written with


@dataclass(frozen=True, slots=True)
class Spelled:
    """ids: an answer's, control tokens and its end included, in the vocabulary of this fingerprint."""

    vocabulary: str
    ids: tuple[int, ...]

    def part(self, start: int, end: int | None = None) -> Spelled:
        return Spelled(self.vocabulary, self.ids[start:end])


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a rendered text an answer stands, characters; ids: those that spell it there."""

    start: int
    end: int
    ids: tuple[int, ...]


def known(messages: Sequence[Mapping[str, Any]], vocabulary: Vocabulary) -> dict[int, Spelled]:
    """Of which messages the ids are known in this vocabulary, by their numbers."""
    return {
        number: spelled for number, message in enumerate(messages)
        if isinstance(spelled := message.get(KEY), Spelled) and spelled.vocabulary == vocabulary.fingerprint
        and message.get("content")
    }  # fmt: skip


def mark(number: int, sentinel: str) -> str:
    """What stands for the content of a message; no text has its sentinel."""
    return f"{sentinel}answer{number}{sentinel}"


def stretches(text: str, marked: str, sentinel: str, contents: Mapping[int, str]) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) of what a template made of contents in `text`, where `marked` has their marks. Ends where
    the two go apart."""
    first, *parts = re.split(f"{sentinel}answer(\\d+){sentinel}", marked)
    if not text.startswith(first):
        return
    at = len(first)
    for place, (name, behind) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        number = int(name)
        if number not in contents:
            return
        whole = contents[number]
        known = (at + len(said) for said in (whole, whole.strip()) if text.startswith(said, at))
        end = next((end for end in known if text.startswith(behind, end)), -1)
        if end < 0:  # the template took something out of it
            last = 2 * place + 2 == len(parts)
            end = len(text) - len(behind) if last and text.endswith(behind) else text.find(behind, at)
        if end < at:
            return
        yield number, at, end
        at = end + len(behind)


class Speller:
    """markers: control tokens that texts of answers spell out; prefix: what the template writes between a prompt and an
    answer, which a model writes itself (see `ChatTemplate.answer_prefix`)."""

    def __init__(self, vocabulary: Vocabulary, markers: Mapping[int, bytes], prefix: str) -> None:
        self._vocabulary, self._markers, self._prefix = vocabulary, markers, prefix
        self._controls = tuple(filter(None, vocabulary.controls))

    def place(self, spelled: Spelled, before: str, end: int, shown: str) -> Place | None:
        """Where those of an answer's ids stand that spell `shown`, what a rendered text says behind `before` and up to
        `end`; None if none do."""
        start = len(before)
        forms = [(start, shown)]
        if self._prefix and before.endswith(self._prefix):
            forms.insert(0, (start - len(self._prefix), self._prefix + shown))
        if not before or before.endswith(self._controls):  # the tokenizer itself may put a space there
            space = self._vocabulary.encoder.start_prefix(shown.encode()).decode()
            forms.insert(0, (start, space + shown))
        found = ((at, self._run(spelled.ids, form.encode())) for at, form in forms if shown)
        return next((Place(at, end, tuple(ids)) for at, ids in found if ids), None)

    def _run(self, ids: Sequence[int], data: bytes) -> Sequence[int]:
        """Those of an answer's ids that spell exactly `data`; none if there are no such."""
        size, eog = self._vocabulary.size, self._vocabulary.eog - self._markers.keys()
        if not all(0 <= id < size for id in ids):
            return ()
        while ids and ids[-1] in eog:
            ids = ids[:-1]
        pieces = [self._vocabulary.pieces[id] or self._markers.get(id, b"") for id in ids]
        ends = [0, *accumulate(map(len, pieces))]
        whole = b"".join(pieces)
        for at in {0 if whole.startswith(data) else -1: None, whole.rfind(data): None}:
            if at < 0 or at not in ends or at + len(data) not in ends:
                continue
            first, behind = len(ends) - 1 - ends[::-1].index(at), ends.index(at + len(data))
            if all(pieces[first:behind]):  # nobody saw the control tokens among them
                return ids[first:behind]
        return ()
