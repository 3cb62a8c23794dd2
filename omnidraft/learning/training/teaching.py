"""From replay records to what the drafter is taught, as padded tensors: positions, windows of its context, batches.

For piece j of target token t the target's distribution over the *drafter's* next piece is the sum of p over all tokens
whose expansion shares the j pieces served so far and is longer, by next piece. What lies outside the captured
candidates stays one outcome, "other": it is never renormalised away. Right padding only: attention is causal, so
nothing a loss reads sees the padding and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ExpansionTable, ReplayStore

A = TypeVar("A")  # of NumPy, or of torch once they are collated


@dataclass(frozen=True)
class Outcomes(Generic[A]):
    """N sparse distributions over drafter pieces.

    ids: (N, K, A) int64, -1 where unused; the A ids of one outcome are pieces that mean the same and whose
    probabilities add up. p: (N, K) float32, 0 where unused. other: (N,) float32, everything else; p.sum(1) + other ==
    1.
    """

    ids: A
    p: A
    other: A

    def at(self, which: Any) -> Outcomes[A]:
        """Those at some positions."""
        return Outcomes(self.ids[which], self.p[which], self.other[which])  # type: ignore[index]


@dataclass(frozen=True)
class Teaching(Generic[A]):
    """One record's N drafter positions, in order. All arrays start with axis N.

    piece: served piece, int64. token: index of the target token it belongs to, int64. depth: j, its place in that
    token's span, int64; length: the span, int64 (1: direct). split: the piece spells several target tokens, bool.
    taught: the target's distribution was captured there, bool. looped: the text runs in a loop there, bool. node:
    projected distribution of the next piece. direct: distribution over directly mapped tokens at the token's first
    piece (all "other" at depth > 0).
    """

    piece: A
    token: A
    depth: A
    length: A
    split: A
    taught: A
    looped: A
    node: Outcomes[A]
    direct: Outcomes[A]

    def at(self, which: Any) -> Self:
        """Some of the positions."""
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        kept: dict[str, Any] = {k: v.at(which) if isinstance(v, Outcomes) else v[which] for k, v in parts.items()}
        return replace(self, **kept)


class Positions(Teaching[Tensor]):
    """N drafter positions of T target tokens, as tensors."""

    @property
    def is_direct(self) -> Tensor:
        """The token maps directly: one piece, and that piece spells nothing else."""
        return (self.length == 1) & ~self.split

    @property
    def named(self) -> Tensor:
        """All pieces that occur in it, each once."""
        ids = torch.cat([self.piece, self.node.ids.flatten(), self.direct.ids.flatten()]).unique()
        return ids[ids >= 0]

    def among(self, pieces: Tensor) -> Positions:
        """The same with every id replaced by a place of it in `pieces`, (n,), which has all that are named."""
        places = torch.full((int(pieces.max()) + 2,), -1)
        places[pieces] = torch.arange(len(pieces))
        node, direct = (replace(o, ids=places[o.ids]) for o in (self.node, self.direct))
        return replace(self, piece=places[self.piece], node=node, direct=direct)


def teach(record: Record, table: ExpansionTable) -> Teaching[np.ndarray]:
    """What each of the record's pieces has to learn."""
    heads, split = _groups(record, table)
    token = np.repeat(heads, record.spans).astype(np.int64)
    length = np.repeat(record.spans, record.spans).astype(np.int64)
    begins = np.repeat(np.cumsum(record.spans) - record.spans, record.spans)
    depth = np.arange(len(record.pieces)) - begins
    of_split = np.repeat(split, record.spans)
    candidates = _Candidates.of(record, table, width=int(record.spans.max(initial=1)))
    piece = record.pieces.astype(np.int64)
    node = candidates.project(token, depth, piece, begins, table)
    _credit_splits(node, record, candidates, heads, split)
    return Teaching(
        piece, token, depth, length, of_split,
        taught=record.counts[token] > 0,
        looped=np.repeat(_looped(record), record.spans),
        node=node,
        direct=candidates.directly(token, depth, table),
    )  # fmt: skip


IN_A_ROW, TIMES = 6, 2  # so many pieces that have stood in a text so often: it runs in a loop


def _looped(record: Record) -> np.ndarray:
    """Which tokens' pieces, (tokens,) bool, all end IN_A_ROW that stand TIMES in the prompt's end or the answer before
    them."""
    text = np.concatenate([record.prompt, record.pieces])
    again = np.zeros(len(text), bool)
    if len(text) >= IN_A_ROW:
        runs = np.lib.stride_tricks.sliding_window_view(text, IN_A_ROW)
        _, which = np.unique(runs, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        equal = which.ravel()[order]
        again[IN_A_ROW - 1 + order] = np.arange(len(runs)) - np.searchsorted(equal, equal) >= TIMES
    known = np.concatenate([[0], np.cumsum(again[len(record.prompt) :])])
    ends = np.cumsum(record.spans)
    return known[ends] - known[ends - record.spans] == record.spans


def _groups(record: Record, table: ExpansionTable) -> tuple[np.ndarray, np.ndarray]:
    """(heads, split): per target token the first token of its group, and whether one piece spells that group.

    A split piece closes its last token: the tokens in front have span 0 although they have expansions.
    """
    n = len(record.targets)
    heads, split, head = np.arange(n), np.zeros(n, bool), None
    for i in range(n):
        if record.spans[i] == 0:
            bare = table.lengths[record.targets[i]] == 0
            head = None if bare else (i if head is None else head)
        else:
            if head is not None:
                heads[i], split[i] = head, True
            head = None
    return heads, split


@dataclass(frozen=True)
class _Candidates:
    """Padded candidates. p: (n, K); rows: (n, K, L) first pieces of each expansion; lengths: (n, K); served: (n,)."""

    ids: np.ndarray
    p: np.ndarray
    rows: np.ndarray
    lengths: np.ndarray
    rest: np.ndarray
    counts: np.ndarray
    served: np.ndarray

    @classmethod
    def of(cls, record: Record, table: ExpansionTable, width: int) -> _Candidates:
        n, k = len(record.targets), int(record.counts.max(initial=1))
        used = np.arange(k) < record.counts[:, None]
        ids, p = np.zeros((n, k), np.int64), np.zeros((n, k), np.float32)
        ids[used], p[used] = record.ids, np.exp(record.logprobs)
        rows, lengths = table.rows(ids, width), np.where(used, table.lengths[ids], 0)
        if record.leading_space and n and record.counts[0]:
            own = [tuple(e[:width]) for e in record.first]
            lengths[0, : len(own)] = [len(e) for e in record.first]
            rows[0, : len(own)] = [e + (-1,) * (width - len(e)) for e in own]
        total = p.sum(1) + record.rest
        p, rest = p / total[:, None], record.rest / total
        hit = used & (ids == record.targets[:, None])
        least = np.where(used, p, 1).min(1, initial=1)
        served = np.where(hit.any(1), (p * hit).sum(1), np.minimum(rest, least))
        return cls(ids, p, rows, lengths, rest, record.counts, served.astype(np.float32))

    def project(
        self, token: np.ndarray, depth: np.ndarray, piece: np.ndarray, begins: np.ndarray, table: ExpansionTable
    ) -> Outcomes[np.ndarray]:
        n, k = len(token), self.p.shape[1]
        ids, p, other = np.full((n, k), -1, np.int64), np.zeros((n, k), np.float32), np.ones(n, np.float32)
        spelled = int((table.lengths > 0).sum())
        for j in range(int(depth.max(initial=-1)) + 1):
            at = np.flatnonzero(depth == j)
            served = piece[begins[at][:, None] + np.arange(j)] if j else np.zeros((len(at), 0), np.int64)
            rows, t = self.rows[token[at]], token[at]
            through = (self.lengths[t] > j) & (rows[:, :, :j] == served[:, None]).all(2)
            p[at] = np.where(through, self.p[t], 0)
            ids[at] = np.where(through, rows[:, :, j], -1)
            if j == 0:
                other[at] = self.rest[t] + np.where(through, 0, self.p[t]).sum(1)  # unspellable tokens are "other"
            else:  # of the rest's tokens, the share that passes this node
                unseen = np.maximum(table.passing(served) - through.sum(1), 0)
                other[at] = self.rest[t] * unseen / np.maximum(spelled - self.counts[t], 1)
        return _normalised(*_merge(ids, p), other)

    def directly(self, token: np.ndarray, depth: np.ndarray, table: ExpansionTable) -> Outcomes[np.ndarray]:
        single = (self.lengths[token] == 1) & (depth == 0)[:, None]
        p = np.where(single, self.p[token], 0)
        merged, p = _merge(np.where(single, self.rows[token, :, 0], -1), p)
        ids = np.where(merged[..., None] >= 0, table.aliases[np.maximum(merged, 0)], -1)
        return Outcomes(ids.astype(np.int64), p, np.maximum(1 - p.sum(1), 0).astype(np.float32))


def _credit_splits(
    node: Outcomes[np.ndarray], record: Record, candidates: _Candidates, heads: np.ndarray, split: np.ndarray
) -> None:
    """Give a split piece the probability of the text it spells, taken from its first token's own first piece.

    p(t1) p(t2 | t1) ... is how often the target continues with the piece's bytes; without this the drafter would be
    taught never to draft a piece longer than the target's tokens.
    """
    ends = np.cumsum(record.spans) - 1
    for last in np.flatnonzero(split):
        first, row = heads[last], ends[last]
        piece, mass = int(record.pieces[row]), float(np.prod(candidates.served[first : last + 1]))
        own = np.flatnonzero(candidates.ids[first][: candidates.counts[first]] == record.targets[first])
        if not len(own):
            continue
        source = np.flatnonzero(node.ids[row, :, 0] == candidates.rows[first, own[0], 0])
        slot = np.flatnonzero(node.ids[row, :, 0] == piece)
        slot = slot if len(slot) else np.flatnonzero(node.ids[row, :, 0] < 0)
        if len(source) and not len(slot):  # full row: the least likely outcome makes room and joins "other"
            slot = np.array([np.argmin(node.p[row])])
            node.other[row] += node.p[row, slot[0]]
            node.p[row, slot[0]] = 0
        if len(source) and source[0] != slot[0]:
            moved = min(mass, float(node.p[row, source[0]]))
            node.p[row, source[0]] -= moved
            node.ids[row, slot[0], 0] = piece
            node.p[row, slot[0]] += moved


def _merge(ids: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum p over equal ids within each row; duplicates become -1 with p 0. (N, K) both, columns trimmed."""
    if not ids.size:
        return ids, p
    order = np.argsort(ids, axis=1, kind="stable")
    ids, p = np.take_along_axis(ids, order, 1), np.take_along_axis(p, order, 1)
    first = np.ones(ids.shape, bool)
    first[:, 1:] = ids[:, 1:] != ids[:, :-1]
    sums = np.add.reduceat(p.reshape(-1).astype(np.float64), np.flatnonzero(first))
    merged = np.zeros(ids.shape, np.float32)
    merged[first] = sums
    used = first & (ids >= 0)
    ids, merged = np.where(used, ids, -1), np.where(used, merged, 0)
    width = max(int(used.sum(1).max()), 1)
    order = np.argsort(~used, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(merged, order, 1).astype(np.float32)


def _normalised(ids: np.ndarray, p: np.ndarray, other: np.ndarray) -> Outcomes[np.ndarray]:
    total = p.sum(1) + other
    empty = total <= 0  # the served token is outside the candidates and nothing is known of this node
    total = np.where(empty, 1, total)
    return Outcomes(
        ids[..., None], (p / total[:, None]).astype(np.float32), np.where(empty, 1, other / total).astype(np.float32)
    )


# Padded ids. What one keeps for its way back is what training takes of memory; and tensors below the block size of
# `process` are used again instead of asked of the system and cleared, which was a third of an update's time.
LONGEST_BATCH, LONGEST_WINDOW = 256, 512


@dataclass(frozen=True, eq=False)
class Window:
    """A stretch of drafter context. ids: (L,) int64; teaching: its last N ids, each predicted by the one before."""

    ids: np.ndarray
    teaching: Teaching[np.ndarray]

    @property
    def positions(self) -> int:
        return len(self.teaching.piece)


@dataclass(frozen=True)
class Batch:
    """parts: the B windows. ids: (B, L) int64, padded with 0. row, column: (N,) where the N predictions are made.
    tokens: T target tokens."""

    parts: Sequence[Window]
    ids: Tensor
    row: Tensor
    column: Tensor
    positions: Positions
    tokens: int

    def only(self, kept: Tensor) -> Batch:
        """With some of the predictions alone, (N,) bool."""
        return replace(self, row=self.row[kept], column=self.column[kept], positions=self.positions.at(kept))


def windows(record: Record, table: ExpansionTable, longest: int = LONGEST_WINDOW) -> list[Window]:
    """The record cut into windows of at most `longest` ids; each piece is learned once.

    The first window shows as much of the prompt's end as fits; later ones start with half a window of context.
    """
    teaching = teach(record, table)
    everything = np.concatenate([record.prompt, record.pieces]).astype(np.int64)
    bounds = np.flatnonzero(teaching.depth == 0)  # a token's pieces stay together
    made, start, total = [], 0, len(record.pieces)
    while start < total and len(record.prompt) + start > 0:
        context = min(len(record.prompt) + start, longest // 2)
        stop = total
        if start + longest - context < total:
            inside = bounds[(bounds > start) & (bounds <= start + longest - context)]
            stop = int(inside[-1]) if len(inside) else start + longest - context
        at = len(record.prompt) + start
        begin = max(0, len(record.prompt) + stop - longest, at - longest // 2 if start else 0)
        ids = everything[min(begin, at - 1) : len(record.prompt) + stop]
        made.append(Window(ids, teaching.at(slice(start, stop))))
        start = stop
    return made


def collate(parts: Sequence[Window]) -> Batch:
    """One padded batch of windows; token indices are made distinct."""
    width = max(len(w.ids) for w in parts)
    ids = np.zeros((len(parts), width), np.int64)
    row, column, shifted, tokens = [], [], [], 0
    for i, window in enumerate(parts):
        ids[i, : len(window.ids)] = window.ids
        n = window.positions
        row.append(np.full(n, i))
        column.append(np.arange(len(window.ids) - n - 1, len(window.ids) - 1))
        index = window.teaching.token
        shifted.append(index - index.min() + tokens if n else index)
        tokens += int(index.max() - index.min()) + 1 if n else 0
    positions = _join([w.teaching for w in parts], np.concatenate(shifted))
    as_tensor = lambda arrays: torch.from_numpy(np.concatenate(arrays))  # noqa: E731
    return Batch(parts, torch.from_numpy(ids), as_tensor(row), as_tensor(column), positions, tokens)


def batches(parts: Sequence[Window]) -> Iterator[Batch]:
    """Windows of similar length together, at most `LONGEST_BATCH` padded ids (and positions) per batch."""
    group: list[Window] = []
    for window in sorted(parts, key=lambda w: len(w.ids)):
        if group and (len(group) + 1) * len(window.ids) > LONGEST_BATCH:
            yield collate(group)
            group = []
        group.append(window)
    if group:
        yield collate(group)


def _join(teachings: Sequence[Teaching[np.ndarray]], token: np.ndarray) -> Positions:
    parts = {}
    for f in fields(Teaching):
        values = [getattr(t, f.name) for t in teachings]
        if isinstance(values[0], Outcomes):
            parts[f.name] = _join_outcomes(values)
        else:
            parts[f.name] = torch.from_numpy(np.concatenate(values))
    parts["token"] = torch.from_numpy(token)
    return Positions(**parts)


def _join_outcomes(outcomes: Sequence[Outcomes[np.ndarray]]) -> Outcomes[Tensor]:
    k, a = (max(o.ids.shape[axis] for o in outcomes) for axis in (1, 2))
    ids = [
        np.pad(o.ids, ((0, 0), (0, k - o.ids.shape[1]), (0, a - o.ids.shape[2])), constant_values=-1) for o in outcomes
    ]
    p = [np.pad(o.p, ((0, 0), (0, k - o.p.shape[1]))) for o in outcomes]
    stack = lambda arrays: torch.from_numpy(np.concatenate(arrays))  # noqa: E731
    return Outcomes(stack(ids), stack(p), stack([o.other for o in outcomes]))


# The replay as training reads it: its index, and each answer cut into windows. Nothing is trained here.


class StoredAnswers:
    """index: what the replay says of every answer in the table's vocabularies, by ordinal. No transaction stays open
    behind a read."""

    def __init__(self, replay: ReplayStore, table: ExpansionTable) -> None:
        self._store, self._table = replay, table
        self.index = self._store.usable(self._table.drafter_fingerprint, self._table.target_fingerprint)

    def windows(self, ordinals: Iterable[int]) -> dict[int, list[Window]]:
        """The windows of these answers."""
        return {ordinal: self._windows(ordinal) for ordinal in ordinals}

    def _windows(self, ordinal: int) -> list[Window]:
        """Empty if the answer was evicted meanwhile or cannot be read: one bad answer must not end learning."""
        try:
            record = self._store.get(ordinal)
            ids = np.concatenate([record.prompt, record.pieces])
            if len(ids) and not 0 <= ids.min() <= ids.max() < len(self._table.direct):
                return []  # an earlier program did not say in whose vocabulary it is: not in this one
            return windows(record, self._table)
        except (KeyError, StorageError, IndexError):
            return []
