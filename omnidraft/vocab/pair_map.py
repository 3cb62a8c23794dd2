"""Everything static between a drafter's vocabulary and a target's: direct map, expansions, splits. And what
translates by it and an n-gram cache.

Direct map: equal bytes. Expansion E(t): the drafter ids that spell target token t as the drafter's tokenizer writes
that fragment mid-text; |E(t)| > 1 makes (t, E(t)) an n-gram (paper, section 3.1). Knows no cache and no models.

On disk it is three integer arrays in an .npz, never a pickle; one that is missing or damaged, as the checksums in it
tell, is made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from omnidraft.errors import StorageError
from omnidraft.storage.files import read_arrays
from omnidraft.storage.scratch import replacing
from omnidraft.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from omnidraft.vocab.ngram_cache import NgramCache


_FORMAT = 1
_PIECES = 4  # of an n-gram that is merged before it was learned: longer ones are hardly ever drafted whole
_LONGER = 6  # of such n-grams that begin alike, those that are remembered
_log = logging.getLogger(__name__)


class PairMap:
    """direct: (drafter.size,) int32, the target id with the same bytes, -1 if none or if the id stands for no text.

    expansions: per target id the drafter ids with exactly its bytes, () for ids that stand for no text or cannot be
    spelled; every end-of-generation id of the target expands to the drafter's (drafter.eos,).
    """

    def __init__(self, drafter: Vocabulary, target: Vocabulary, direct: np.ndarray, expansions: list[tuple[int, ...]]):
        self.drafter, self.target = drafter, target
        self.direct = direct
        self.expansions = expansions
        self._splits: dict[int, tuple[int, ...]] = {}

    @classmethod
    def build(cls, drafter: Vocabulary, target: Vocabulary, cache_dir: Path | None = None) -> PairMap:
        """Read the pair's map from `cache_dir` or compute it (seconds for 152k tokens) and keep it there."""
        path = None
        if cache_dir is not None:
            path = Path(cache_dir) / f"pair-{drafter.fingerprint[:20]}-{target.fingerprint[:20]}.npz"
        # Vocabularies that differ only in padding share a file, so it covers the ordinary ids, not every logit row.
        drafter_ids, target_ids = _last_ordinary(drafter) + 1, _last_ordinary(target) + 1
        arrays = _load(path) if path else None
        if arrays is not None and not _fit(arrays, drafter, target, drafter_ids, target_ids):
            _log.warning("%s is no map of these vocabularies and is computed anew.", path)
            arrays = None
        if arrays is None:
            arrays = _compute(drafter, target, drafter_ids, target_ids)
            if path:
                _save(path, *arrays)
        short, flat, offsets = arrays
        direct = np.full(drafter.size, -1, dtype=np.int32)
        direct[:drafter_ids] = short
        return cls(drafter, target, direct, _unpack(drafter, target, flat, offsets))

    def splits(self, d: int) -> tuple[int, ...]:
        """Target ids that spell drafter id d's bytes; () if it stands for no text or cannot be spelled."""
        known = self._splits.get(d)
        if known is None:
            known = self._splits[d] = self._split(d)
        return known

    @cached_property
    def merges(self) -> Merges:
        """The n-grams of the pair that are worth knowing before they are said."""
        return Merges(self.target, self.expansions)

    @property
    def shared(self) -> int:
        """Distinct byte strings that are a token of both."""
        return len(np.unique(self.direct[self.direct >= 0]))

    def _split(self, d: int) -> tuple[int, ...]:
        if not self.drafter.ordinary[d]:
            return ()
        if self.direct[d] >= 0:
            return (int(self.direct[d]),)
        try:
            return tuple(self.target.encode_bytes(self.drafter.pieces[d]))
        except ValueError:
            return ()


class Merges:
    """The shorter n-grams of two vocabularies, found by the pieces they are or begin with. Of tokens with the same
    bytes it has the preferred one."""

    def __init__(self, target: Vocabulary, expansions: Sequence[tuple[int, ...]]) -> None:
        self._whole: dict[tuple[int, ...], int] = {}
        self._through: dict[tuple[int, ...], list[int]] = {}
        for token, pieces in enumerate(expansions):
            if 1 < len(pieces) <= _PIECES and target.preferred(token) == token:
                self._whole[pieces] = token
                for end in range(1, len(pieces)):
                    longer = self._through.setdefault(pieces[:end], [])
                    if len(longer) < _LONGER:
                        longer.append(token)

    def matches(self, pieces: Sequence[int], start: int) -> list[tuple[int, int]]:
        """(length, target id) of every n-gram that `pieces` holds at `start` < len(pieces), longest first."""
        found: list[tuple[int, int]] = []
        for length in range(2, min(_PIECES, len(pieces) - start) + 1):
            beginning = tuple(pieces[start : start + length])
            token = self._whole.get(beginning)
            if token is not None:
                found.append((length, token))
            if beginning not in self._through:
                break
        found.reverse()
        return found

    def could_grow(self, pieces: Sequence[int], start: int) -> bool:
        """Whether `pieces[start:]` is a proper prefix of an n-gram."""
        return tuple(pieces[start:]) in self._through

    def beginning(self, pieces: Sequence[int]) -> list[int]:
        """Target ids of n-grams that begin with `pieces`, or are just these; of very many the first ones, which in a
        BPE vocabulary are the most frequent."""
        whole = self._whole.get(tuple(pieces))
        return [*([whole] if whole is not None else []), *self._through.get(tuple(pieces), [])]


def _compute(drafter: Vocabulary, target: Vocabulary, drafter_ids: int, target_ids: int):
    """(direct, flat, offsets); tokenizes only the target tokens whose bytes are no drafter token's."""
    find = target.by_bytes.get
    direct = np.array([find(piece, -1) for piece in drafter.pieces[:drafter_ids]], dtype=np.int32)
    direct[~drafter.ordinary[:drafter_ids]] = -1
    expansions: list[list[int]] = [[]] * target_ids
    rest = []
    for token in np.flatnonzero(target.ordinary).tolist():
        single = drafter.by_bytes.get(target.pieces[token])
        if single is None:
            rest.append(token)
        else:
            expansions[token] = [single]
    for token, ids in zip(rest, drafter.encoder.encode_many([target.pieces[t] for t in rest]), strict=True):
        if ids is not None:
            expansions[token] = ids
    offsets = np.zeros(target_ids + 1, dtype=np.int32)
    np.cumsum([len(ids) for ids in expansions], out=offsets[1:])
    flat = np.array([piece for ids in expansions for piece in ids], dtype=np.int32)
    return direct, flat, offsets


def _unpack(drafter: Vocabulary, target: Vocabulary, flat: np.ndarray, offsets: np.ndarray) -> list[tuple[int, ...]]:
    pieces = flat.tolist()
    bounds = offsets.tolist()
    expansions = [tuple(pieces[left:right]) for left, right in pairwise(bounds)]
    expansions += [()] * (target.size - len(expansions))
    for token in target.eog:
        expansions[token] = (drafter.eos,) if drafter.eos is not None else ()
    return expansions


def _last_ordinary(vocabulary: Vocabulary) -> int:
    ordinary = np.flatnonzero(vocabulary.ordinary)
    return int(ordinary[-1]) if len(ordinary) else -1


def _save(path: Path, direct: np.ndarray, flat: np.ndarray, offsets: np.ndarray) -> None:
    """Write atomically. A folder that cannot be written only costs the next start some time, so it is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, format=np.int32(_FORMAT), direct=direct, flat=flat, offsets=offsets)
    except OSError as error:
        _log.info("the vocabulary map was not kept at %s: %s", path, error)


def _load(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(direct, flat, offsets); None if the file does not hold them."""
    if not path.is_file():
        return None
    try:
        data = read_arrays(path)
        return (data["direct"], data["flat"], data["offsets"]) if int(data["format"]) == _FORMAT else None
    except (StorageError, ValueError, KeyError, TypeError) as error:
        _log.warning("The vocabulary map %s is computed anew: %s.", path, str(error).rstrip("."))
        return None


def _fit(
    arrays: Sequence[np.ndarray], drafter: Vocabulary, target: Vocabulary, drafter_ids: int, target_ids: int
) -> bool:
    """Whether arrays can be a map of these vocabularies."""
    direct, flat, offsets = arrays
    if not all(a.ndim == 1 and a.dtype.kind == "i" for a in arrays):
        return False
    if len(direct) != drafter_ids or len(offsets) != target_ids + 1 or (np.diff(offsets) < 0).any():
        return False
    within = lambda ids, least, size: not len(ids) or (ids.min() >= least and ids.max() < size)  # noqa: E731
    ends = offsets[0] == 0 and offsets[-1] == len(flat)
    return bool(ends and within(direct, -1, target.size) and within(flat, 0, drafter.size))


# Turns drafted pieces into proposals for the target, and target tokens back into pieces: pure translation over a pair
# map and an n-gram cache (paper, Algorithm 1, lines 5 and 17-19). Knows nothing of models, probabilities or sampling.


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
