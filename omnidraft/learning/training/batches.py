"""Replay records as padded tensors: windows of drafter context, and the positions a loss looks at.

Right padding only: attention is causal, so nothing a loss reads sees the padding and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omnidraft.errors import StorageError
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training import losses
from omnidraft.learning.training.alignment import Outcomes, Teaching, teach
from omnidraft.learning.update import Job

# Padded ids. What one keeps for its way back is what training takes of memory; and tensors below the block size of
# `process_main` are used again instead of asked of the system and cleared, which was a third of an update's time.
LONGEST_BATCH = 256


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
    positions: losses.Positions
    tokens: int

    def only(self, tokens: Tensor) -> Batch:
        """With the predictions of some target tokens alone, (T,) bool."""
        kept = tokens[self.positions.token]
        return replace(self, row=self.row[kept], column=self.column[kept], positions=self.positions.at(kept))


def windows(record: Record, table: ExpansionTable, longest: int = 512) -> list[Window]:
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
        made.append(
            Window(
                everything[min(begin, at - 1) : len(record.prompt) + stop],
                teaching.at(slice(start, stop)),
            )
        )
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


def batches(parts: Sequence[Window], longest_batch: int = LONGEST_BATCH) -> Iterator[Batch]:
    """Windows of similar length together, at most `longest_batch` padded ids (and positions) per batch."""
    group: list[Window] = []
    for window in sorted(parts, key=lambda w: len(w.ids)):
        if group and (len(group) + 1) * len(window.ids) > longest_batch:
            yield collate(group)
            group = []
        group.append(window)
    if group:
        yield collate(group)


def _join(teachings: Sequence[Teaching[np.ndarray]], token: np.ndarray) -> losses.Positions:
    parts = {}
    for f in fields(Teaching):
        values = [getattr(t, f.name) for t in teachings]
        if isinstance(values[0], Outcomes):
            parts[f.name] = _join_outcomes(values)
        else:
            parts[f.name] = torch.from_numpy(np.concatenate(values))
    parts["token"] = torch.from_numpy(token)
    return losses.Positions(**parts)


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
    """index: what the replay says of every answer in the drafter's vocabulary, by ordinal. No transaction stays open
    behind a read."""

    def __init__(self, job: Job) -> None:
        self._store = ReplayStore(Path(job.replay), read_only=True)
        self._tables = {vocabulary: ExpansionTable.load(Path(path)) for vocabulary, path in job.tables.items()}
        drafter = next((table.drafter_fingerprint for table in self._tables.values()), "")  # all are of one drafter
        self.index = self._store.spelled_by(drafter)
        self._longest = job.window

    def windows(self, ordinals: Iterable[int]) -> dict[int, list[Window]]:
        """The windows of these answers."""
        return {ordinal: self._windows(ordinal) for ordinal in ordinals}

    def _windows(self, ordinal: int) -> list[Window]:
        """Empty if the answer was evicted meanwhile or cannot be read: one bad answer must not end learning."""
        try:
            record = self._store.get(ordinal)
            table = self._tables[record.vocabulary]
            if any(len(ids) and not 0 <= ids.min() <= ids.max() < len(table.direct)
                   for ids in (record.prompt, record.pieces)):  # fmt: skip
                return []  # an earlier program did not say in whose vocabulary it is: not in this one
            return windows(record, table, self._longest)
        except (KeyError, StorageError, IndexError):
            return []
