"""Turns drafted pieces into proposals for the target, and target tokens back into pieces.

Pure translation over a pair map and an n-gram cache (paper, Algorithm 1, lines 5 and 17-19): it knows nothing of
models, probabilities or sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from omnidraft.vocab.ngram_cache import NgramCache
from omnidraft.vocab.pair_map import PairMap

Kind = Literal["direct", "ngram", "split"]


class Proposal(NamedTuple):
    """One target token proposed for verification.

    pieces: how many drafter pieces it consumes when it closes (a split token's parts: 0, ..., 0, 1); start: the index
    of its first piece in the sequence given to `segment`.
    """

    target_id: int
    origin: Kind
    pieces: int
    start: int


class Choice(NamedTuple):
    """One way to go on at a position: the next target token and how many pieces it covers (a split's first part: 1)."""

    target_id: int
    origin: Kind
    pieces: int


Choose = Callable[[int, list[Choice]], int]


class Translator:
    """At each position: the longest n-gram in the cache, else the direct map, else a split, else the segment ends."""

    def __init__(self, pair: PairMap, cache: NgramCache | None):
        self.pair, self.cache = pair, cache
        self._direct: list[int] = pair.direct.tolist()
        self._eog = pair.drafter.eog

    def segment(self, pieces: Sequence[int], choose: Choose | None = None, final: bool = True) -> list[Proposal]:
        """Proposals whose bytes are those of the pieces they consume, in order.

        choose(position, choices) picks an index where several tokens are possible; position counts proposals from 0
        and choices are in the default's order (n-grams longest first, then direct or split), so 0 is the default.
        final=False holds back the trailing fragment that could still become part of a longer n-gram. An
        end-of-generation piece proposes the target's turn end and closes the segment; a piece without any counterpart
        closes it unproposed.
        """
        return self._walk(pieces, choose, final)[0]

    def open_tail(self, pieces: Sequence[int]) -> int:
        """How many trailing pieces are a fragment that a cached n-gram could still extend."""
        proposals, held = self._walk(pieces, None, False)
        return len(pieces) - sum(p.pieces for p in proposals) if held else 0

    def drafter_ids(self, target_id: int) -> tuple[int, ...]:
        """E(t), what a corrected or bonus token adds to the drafter's context; () for unmapped control tokens."""
        return self.pair.expansions[target_id]

    def first_drafter_ids(self, data: bytes) -> list[int]:
        """Drafter ids of an answer's first token behind a prompt that ends without white space.

        SentencePiece drafters expect such an answer to begin with a space (" The") that the target does not write, so
        the token is spelled with one, unless it begins with white space itself. ValueError if it cannot be spelled.
        """
        if data and not data[:1].isspace():
            data = b" " + data
        single = self.pair.drafter.by_bytes.get(data)
        return self.pair.drafter.encode_bytes(data) if single is None else [single]

    def emitted(self, target_id: int, source: str | None = None) -> None:
        """Tell the cache about a verified token; `source` names the conversation it came from."""
        if self.cache is not None and len(self.pair.expansions[target_id]) > 1:
            self.cache.learn(target_id, source)

    def _walk(self, pieces: Sequence[int], choose: Choose | None, final: bool) -> tuple[list[Proposal], bool]:
        """(proposals, whether the walk stopped at a held-back fragment)."""
        proposals: list[Proposal] = []
        position, end = 0, len(pieces)
        cache = self.cache
        while position < end:
            piece = pieces[position]
            if piece in self._eog:
                if self.pair.target.eos is not None:
                    proposals.append(Proposal(self.pair.target.eos, "direct", 1, position))
                break
            matches: list[tuple[int, int]] = []
            if cache is not None:
                if not final and cache.could_grow(pieces, position):
                    return proposals, True
                matches = cache.matches(pieces, position)
            choice = self._choice(piece, matches, choose, len(proposals))
            if choice is None:
                break
            target_id, origin, length = choice
            if origin == "split":
                parts = self.pair.splits(piece)
                proposals += [Proposal(part, "split", 0, position) for part in parts[:-1]]
                target_id = parts[-1]
            proposals.append(Proposal(target_id, origin, length, position))
            position += length
        return proposals, False

    def _choice(self, piece: int, matches: list[tuple[int, int]], choose: Choose | None, place: int) -> tuple | None:
        """(target id, origin, pieces) of the default or chosen way on, None if there is none."""
        direct = self._direct[piece]
        if choose is None or not matches:  # nothing to choose between
            if matches:
                return (matches[0][1], "ngram", matches[0][0])
            if direct >= 0:
                return (direct, "direct", 1)
            parts = self.pair.splits(piece)
            return (parts[0], "split", 1) if parts else None
        choices = [Choice(token, "ngram", length) for length, token in matches]
        if direct >= 0:
            choices.append(Choice(direct, "direct", 1))
        elif parts := self.pair.splits(piece):
            choices.append(Choice(parts[0], "split", 1))
        return choices[choose(place, choices)] if len(choices) > 1 else choices[0]
