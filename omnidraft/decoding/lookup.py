"""Drafts for free: the longest earlier passage that ends like the answer does now, and what followed it.

Works on target ids, so nothing is translated. Looks in the current context and in past answers handed to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omnidraft.backends.pictures import until_picture

_LONGEST = 32  # ids of a match that are compared
_GROWTH = 2  # times as many ids as matched are copied: a copy doubles while it is right
_MOST_IDS = 200_000  # remembered over all texts; then the older half is dropped
_TRIED = 8  # of the newest passages that end alike, how many are compared


class Match(NamedTuple):
    """An earlier passage: `ids` followed it, its last `length` ids are the answer's last ones, 0 if nothing agrees.

    own: it stands in the answer itself, not before it or in another text. agreed: so many of `ids` are what several
    passages go on with and none otherwise. resumed: the answer said other ids in place of the passage's last ones and
    is taken to come back to it; `length` is what agreed before, halved by each of them.
    """

    ids: Sequence[int]
    length: int
    own: bool
    agreed: int = 0
    resumed: bool = False


NO_MATCH = Match((), 0, own=False)


class SuffixLookup:
    """An index of every id of the texts seen, newest occurrence first to be found."""

    def __init__(self, past: Sequence[Sequence[int]] = ()) -> None:
        self._texts: list[list[int]] = [[]]
        self._passages: list[tuple[int, int]] = []  # that end alike
        self._followed: tuple[int, int] | None = None  # where the passage that was found last goes on
        self._run = 0  # ids that speak for that
        self._begun = 0  # where the current text's own part starts
        self._count = 0
        self._seen: dict[int, list[tuple[int, int]]] = {}  # what is behind each id
        for text in past:
            self.begin(text)

    @property
    def finds(self) -> bool:
        """Whether an earlier passage may go on from here."""
        return bool(self._passages) or self._followed is not None

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
        self._part(len(self._texts[-1]))

    def _open(self) -> None:
        self._texts.append([])
        self._part(0)

    def _part(self, begun: int) -> None:
        """What leads into an answer is the same in every conversation: agreeing on that means nothing."""
        self._passages, self._followed, self._begun = [], None, begun

    def extend(self, ids: Iterable[int]) -> None:
        """Ids behind the current text."""
        for i in ids:
            self.append(i)

    def append(self, i: int) -> None:
        """One id behind the current text. Constant work, and little: it is done for every token."""
        text = self._texts[-1]
        # the id that i follows: indexed only now, so that a text never matches its own end
        if len(text) > self._begun:
            self._seen.setdefault(text[-1], []).append((len(self._texts) - 1, len(text)))
        text.append(i)
        self._passages = self._seen.get(i, [])
        self._count += 1
        if self._followed is not None:
            self._follow(*self._followed, i)

    def _follow(self, number: int, end: int, i: int) -> None:
        """An id in the place of another leaves half of what spoke for the passage, and in the end nothing."""
        passage = self._texts[number]
        right = passage[end : end + 1] == [i]
        self._run = min(self._run + 1, _LONGEST) if right else self._run // 2
        self._followed = (number, end + 1) if self._run and end < len(passage) else None

    def _drop_older_half(self) -> None:
        kept = self._texts[len(self._texts) // 2 + 1 :]
        self._texts, self._seen, self._count = [[]], {}, 0
        for text in kept:
            self._open()
            self.extend(text)

    def propose(self, longest: int) -> Match:
        """What followed where earlier texts end like this one since `begin`, up to `longest` ids.

        Of the newest passages that end alike those with the longest match say what comes next, id by id, by majority;
        with as many votes each, the newest passage's (arXiv 2411.04975). The passage found last, if more still speaks
        for it, says so alone.
        """
        best, length = self._longest_matches()
        resumed = self._followed is not None and self._run > length
        if self._followed is not None and resumed:
            best, length = [self._followed], self._run
        if not best:
            return NO_MATCH
        ids, (number, end), agreed = self._elect(best, min(longest, _GROWTH * length))
        self._followed, self._run = (number, end), length
        ids = list(until_picture(ids))
        own = number == len(self._texts) - 1 and end > self._begun
        return Match(ids, length, own, min(agreed, len(ids)), resumed)

    def _longest_matches(self) -> tuple[list[tuple[int, int]], int]:
        """The passages that end like the text for longest, newest first, and for how many ids."""
        passages = self._passages[-_TRIED:]
        if self._followed is not None and self._followed not in passages:
            passages.insert(0, self._followed)
        text = self._texts[-1]
        most = min(_LONGEST, len(text) - self._begun)
        matched = [self._matching(self._texts[number], end, text, most) for number, end in passages]
        length = max(matched, default=0)
        return [p for p, n in zip(passages[::-1], matched[::-1], strict=True) if n == length > 0], length

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
        n, most = 0, min(most, end)
        while n < most and other[end - 1 - n] == text[-1 - n]:
            n += 1
        return n
