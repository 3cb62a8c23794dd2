"""What the app asks of the training process, as one line of JSON, and what it may do."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Literal


@dataclass(frozen=True)
class Job:
    """kind: "update" trains and publishes; "compare" only estimates `start` against `other` on recent answers; "merge"
    writes the adapter `start` and the drafter as one file, `merged`.

    drafter: its GGUF; fingerprint: of that file; replay: the store's file; tables: expansion tables by target
    vocabulary fingerprint; store: folder of the adapter versions; vocabulary: the store's, or "shared"; target: name of
    the target in use; parent: name of the version served, None for the bare drafter; start: weights served, to
    begin with unless there is a candidate trained from them, None: an adapter that changes nothing; inherited:
    conversations `start` was trained on. other: weights to compare with. merged: an update's folder for the merged file
    of what it publishes, None to write none.
    """

    drafter: str
    fingerprint: str
    replay: str
    tables: dict[str, str]
    store: str
    vocabulary: str
    target: str = ""
    kind: Literal["update", "compare", "merge"] = "update"
    parent: str | None = None
    start: str | None = None
    other: str | None = None
    merged: str | None = None
    inherited: tuple[str, ...] = ()
    through: int = 0
    loss: str = "projected"
    rank: int = 32
    learning_rate: float = 2e-3
    rehearsal: float = 1.0
    passes: int = 2
    cpu_percent: int = 50
    window: int = 512
    seed: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Job:
        values = json.loads(line)
        known = {f.name for f in fields(cls)}
        values["inherited"] = tuple(values.get("inherited", ()))
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def threads(self) -> int:
        """Torch threads that stay inside the budget when they all work."""
        return max(1, int((os.cpu_count() or 1) * self.cpu_percent / 100))

    @property
    def duty(self) -> float:
        """Share of the time those threads may work: less than 1 only if the budget is below one core."""
        return min(1.0, (os.cpu_count() or 1) * self.cpu_percent / 100 / self.threads)
