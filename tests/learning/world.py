"""A replay, the adapter versions learned from it, and the jobs between them, with nothing of the app around."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ExpansionTable, ReplayStore
from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.evaluate import Estimate, estimates
from omnidraft.learning.training.process import does
from omnidraft.learning.training.teaching import windows
from omnidraft.learning.update import Job, Update


class World:
    """A replay, a store and the jobs between them, which rehearse nothing unless they are told to: that takes most of
    their time."""

    def __init__(self, records: list[Record], table: Path, drafter: Path, folder: Path) -> None:
        self.records, self.vocabulary = records, records[0].vocabulary
        self.store = AdapterStore(folder / "store")
        self.replay = folder / "replay.sqlite"
        self.job = Job(
            Update(1, 0.0, drafter.stem, "target", self.vocabulary), str(drafter), "f", str(self.replay),
            str(table), str(self.store.folder), cpu_percent=1, least_steps=6, rehearsal=0.0,
        )  # fmt: skip

    def add(self, records: list[Record]) -> None:
        with ReplayStore(self.replay) as replay:
            for record in records:
                replay.add(record)

    def update(self, **changes) -> Update:
        """Run an update and do what the app does about its result, which is returned."""
        *_, result = self.updates(**changes)
        if result.outcome == "refused":
            self.store.reject_update(result.through)
        self.store.prune()
        return result

    def updates(self, **changes) -> Iterator[Update]:
        """Run an update; what it is on the way."""
        current = self.store.current()
        start = {"start": str(current.weights), "parent": current.name} if current else {}
        job = dataclasses.replace(self.job, through=self.store.through, **start, **changes)
        yield from does(job)

    def served_on(self, records: list[Record]) -> Estimate:
        """Acceptance estimate of the served adapter on these answers."""
        table = ExpansionTable.load(Path(self.job.table))
        model = TorchDrafter(Path(self.job.drafter), 32)
        model.load_weights(read_weights(self.store.current().weights))
        return estimates(model, {"clean": {i: windows(record, table) for i, record in enumerate(records)}})["clean"]
