"""Drafts for free: the longest earlier passage that ends like the answer does now, and what followed it.

Works on target ids, so nothing is translated. Looks in the current context and in past answers handed to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omnidraft.backends.pictures import until_picture

_SHORTEST = 3  # shorter matches are chance
_LONGEST = 16
_MOST_IDS = 200_000  # remembered over all texts; then the older half is dropped
_TRIED = 8  # of the newest passages that end alike, how many are compared


class Match(NamedTuple):
    """An earlier passage: `ids` followed it, its last `length` ids are the answer's last ones, 0 if nothing agrees.

    own: it stands in the answer itself, not before it or in another text. agreed: so many of `ids` are what several
    passages go on with and none otherwise.
    """

    ids: Sequence[int]
    length: int
    own: bool
    agreed: int = 0


NO_MATCH = Match((), 0, own=False)


class SuffixLookup:
    """An index of every `_SHORTEST`-gram of the texts seen, newest occurrence first to be found."""

    def __init__(self, past: Sequence[Sequence[int]] = ()) -> None:
        self._texts: list[list[int]] = [[]]
        self._gram: tuple[int, ...] = ()  # the current text's last ids behind `_begun`, at most _SHORTEST
        self.passages: list[tuple[int, int]] | None = None  # that end alike, None if there are none
        self._begun = 0  # where the current text's own part starts
        self._count = 0
        self._seen: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for text in past:
            self.begin(text)

    def begin(self, ids: Sequence[int]) -> None:
        """Start a new text with `ids`, or go on with the current one if `ids` do; later `extend`s belong to it."""
        text = self._texts[-1]
        if text and list(ids[: len(text)]) == text:
            self.extend(ids[len(text) :])
        else:
            if self._count + len(ids) > _MOST_IDS:
                self._drop_older_half()
            self._open()
            self.extend(ids)
        # what leads into an answer is the same in every conversation: agreeing on that means nothing
        self._gram, self.passages, self._begun = (), None, len(self._texts[-1])

    def _open(self) -> None:
        self._texts.append([])
        self._gram, self.passages, self._begun = (), None, 0

    def extend(self, ids: Iterable[int]) -> None:
        """Ids behind the current text."""
        for i in ids:
            self.append(i)

    def append(self, i: int) -> None:
        """One id behind the current text. Constant work, and little: it is done for every token."""
        text, gram, passages = self._texts[-1], self._gram, self.passages
        # the gram that i follows: indexed only now, so that a text never matches its own end
        if len(gram) == _SHORTEST:
            place = len(self._texts) - 1, len(text)
            if passages is None:
                self._seen[gram] = [place]
            else:
                passages.append(place)
            gram = gram[1:]
        text.append(i)
        self._gram = gram = (*gram, i)
        self.passages = self._seen.get(gram)
        self._count += 1

    def _drop_older_half(self) -> None:
        kept = self._texts[len(self._texts) // 2 + 1 :]
        self._texts, self._seen, self._count = [[]], {}, 0
        for text in kept:
            self._open()
            self.extend(text)

    def propose(self, longest: int) -> Match:
        """What followed where earlier texts end like this one since `begin`, up to `longest` ids.

        Of the newest passages that end alike those with the longest match say what comes next, id by id, by majority;
        with as many votes each, the newest passage's (arXiv 2411.04975). `NO_MATCH` if all are too short.
        """
        passages = self.passages
        if passages is None:
            return NO_MATCH
        text = self._texts[-1]
        length, most = 0, min(_LONGEST, len(text) - self._begun)
        best: list[tuple[int, int]] = []
        for number, end in reversed(passages[-_TRIED:]):
            matched = self._matching(self._texts[number], end, text, most)
            if matched > length:
                best, length = [(number, end)], matched
            elif matched == length:
                best.append((number, end))
        ids, (number, end), agreed = self._elect(best, longest)
        ids = list(until_picture(ids))
        return Match(ids, length, number == len(self._texts) - 1 and end > self._begun, min(agreed, len(ids)))

    def _elect(self, passages: Sequence[tuple[int, int]], longest: int) -> tuple[list[int], tuple[int, int], int]:
        """What most of `passages` (newest first) go on with, the newest one that does so all along, and on how many
        ids they all agree."""
        agreed, voters = 0, len(passages)
        if voters > 1:
            for ahead in range(longest):
                said = [self._texts[number][end + ahead : end + ahead + 1] for number, end in passages]
                votes = Counter(ids[0] for ids in said if ids)
                if not votes:
                    break
                winner, count = votes.most_common(1)[0]
                agreed += agreed == ahead and count == voters
                passages = [p for p, ids in zip(passages, said, strict=True) if ids == [winner]]
                if len(passages) == 1:
                    break
        number, end = passages[0]
        return self._texts[number][end : end + longest], (number, end), agreed

    @staticmethod
    def _matching(other: list[int], end: int, text: list[int], most: int) -> int:
        """How many ids before `end` in `other` equal the last ids of `text`, up to `most`."""
        n, most = _SHORTEST, min(most, end)
        while n < most and other[end - 1 - n] == text[-1 - n]:
            n += 1
        return n
