"""Turns drafted pieces into proposals for the target, and target tokens back into pieces.

Pure translation over a pair map and an n-gram cache (paper, Algorithm 1, lines 5 and 17-19): it knows nothing of
models, probabilities or sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from omnidraft.vocab.ngram_cache import NgramCache
from omnidraft.vocab.pair_map import PairMap

Kind = Literal["direct", "ngram", "split", "lookup", "forced"]


class Proposal(NamedTuple):
    """One target token proposed for verification.

    pieces: how many drafter pieces it consumes when it closes (a split token's parts: 0, ..., 0, 1); start: the index
    of its first piece in the sequence given to `segment`.
    """

    target_id: int
    origin: Kind
    pieces: int
    start: int


class Translator:
    """At each position: the longest n-gram in the cache, else the direct map, else a split, else the segment ends."""

    def __init__(self, pair: PairMap, cache: NgramCache | None):
        self.pair, self.cache = pair, cache
        self._direct: list[int] = pair.direct.tolist()
        self._eog = pair.drafter.eog

    def segment(self, pieces: Sequence[int], final: bool = True) -> list[Proposal]:
        """Proposals whose bytes are those of the pieces they consume, in order.

        final=False holds back the trailing fragment that could still become part of a longer n-gram. An
        end-of-generation piece proposes the target's turn end and closes the segment; a piece without any counterpart
        closes it unproposed.
        """
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
                    break
                matches = cache.matches(pieces, position)
            length = self._propose(piece, matches, position, proposals)
            if not length:
                break
            position += length
        return proposals

    def _propose(self, piece: int, matches: list[tuple[int, int]], position: int, proposals: list[Proposal]) -> int:
        """Add what `piece` at `position` goes on as; how many pieces that covers, 0 if it has no counterpart."""
        if matches:
            length, token = matches[0]
            proposals.append(Proposal(token, "ngram", length, position))
            return length
        direct = self._direct[piece]
        if direct >= 0:
            proposals.append(Proposal(direct, "direct", 1, position))
            return 1
        parts = self.pair.splits(piece)
        if not parts:
            return 0
        proposals += [Proposal(part, "split", 0, position) for part in parts[:-1]]
        proposals.append(Proposal(parts[-1], "split", 1, position))
        return 1

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
