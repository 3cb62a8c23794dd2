"""The replay as training reads it: its index, and each answer cut into windows. Nothing is trained here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training.batches import Window, windows
from omnidraft.learning.training_job import TrainingJob


class StoredAnswers:
    """index: what the replay says of every answer in the drafter's vocabulary, by ordinal. No transaction stays open
    behind a read."""

    def __init__(self, job: TrainingJob) -> None:
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
