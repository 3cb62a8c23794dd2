"""What is asked of the training process, as one line of JSON; jobs are built here from what is served and the settings.

Nothing is started here, and nothing heavy imported at once: the training process reads its job before the limits are
set that numpy and torch read when they load.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omnidraft.processes.cores import physical_cores
from omnidraft.settings.config import LearningSettings

if TYPE_CHECKING:
    from omnidraft.learning.adapters.serving import Choice  # brings llama.cpp

Kind = Literal["update", "compare", "merge"]
MOST_NEW = 64  # new answers of one update; a backlog is worked off oldest first
PASSES, STEPS = 2, 20
MOST_ASKED, PASSES_ASKED = 512, 6  # of an update somebody asked for: one long one takes less than many short ones
MORE_STEPS = 40  # of such a one, and where nothing is served yet: twelve long answers teach .25 then, with 20 .11


@dataclass(frozen=True)
class TrainingJob:
    """kind: "update" trains and publishes; "compare" only estimates `start` against `other` on recent answers; "merge"
    writes the adapter `start` and the drafter as one file, `merged`.

    drafter: its GGUF; fingerprint: of that file; replay: the store's file; tables: expansion tables by target
    vocabulary fingerprint; store: folder of the adapter versions; vocabulary: the store's; target: name of
    the target in use; parent: name of the version served, None for the bare drafter; start: weights served, to
    begin with unless there is a candidate trained from them, None: an adapter that changes nothing; inherited:
    conversations `start` was trained on. other: weights to compare with. merged: an update's folder for the merged file
    of what it publishes, None to write none. gated: publish only what is better than what is served; else every update.
    passes: over everything; least_steps: more passes while that makes fewer steps, for a handful moves nothing (after
    40 answers: mathematics .44 accepted with 20 steps at least, .42 with 40, functions .25 and .27, for half the time).
    most_new: answers an update learns from at most, replayed ones not counted.
    """

    drafter: str
    fingerprint: str
    replay: str
    tables: dict[str, str]
    store: str
    vocabulary: str
    target: str = ""
    kind: Kind = "update"
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
    gated: bool = True
    passes: int = PASSES
    least_steps: int = STEPS
    most_new: int = MOST_NEW
    cpu_percent: int = 50
    window: int = 512
    seed: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> TrainingJob:
        values = json.loads(line)
        known = {f.name for f in fields(cls)}
        values["inherited"] = tuple(values.get("inherited", ()))
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def threads(self) -> int:
        """Torch threads that stay inside the budget when they all work."""
        return max(1, int(physical_cores() * self.cpu_percent / 100))

    @property
    def duty(self) -> float:
        """Share of the time those threads may work: less than 1 only if the budget is below one core."""
        return min(1.0, physical_cores() * self.cpu_percent / 100 / self.threads)


def make_job(
    kind: Kind, choice: Choice, vocabulary: str, target: str, settings: LearningSettings, replay: Path,
    tables: dict[str, str], merged: Path | None = None, seed: int = 0, *, asked: bool = False,
) -> TrainingJob:  # fmt: skip
    """An update of the served version (or of the one a new vocabulary starts warm from) by the answers behind it; or
    a comparison of that version with what was served before it; or one file of it and the drafter.

    vocabulary: the target's fingerprint; target: its name; tables: as in `TrainingJob`; merged: folder for an update's
    merged file. asked: somebody wants the update now, and waits.
    """
    from omnidraft.learning.adapters.versions import model_fingerprint  # brings numpy

    version = choice.version
    job = TrainingJob(
        str(choice.drafter), model_fingerprint(choice.drafter), str(replay), tables, str(choice.learned_in.folder),
        vocabulary, target, kind, loss=settings.loss, rank=settings.rank,
        learning_rate=settings.learning_rate, rehearsal=settings.rehearsal, cpu_percent=settings.cpu_percent,
        start=str(version.weights) if version is not None else None,
    )  # fmt: skip
    if kind == "merge":
        return replace(job, start=str(choice.adapter), merged=str(choice.merged))
    if kind == "compare":
        previous = choice.learned_in.previous()
        return replace(job, other=str(previous.weights) if previous is not None else None)
    return replace(
        job,
        parent=version.name if version is not None and choice.origin == "own" else None,
        inherited=version.meta.chats if version is not None else (),
        through=choice.learned_in.through,
        merged=str(merged) if merged is not None else None,
        seed=seed,
        most_new=MOST_ASKED if asked else MOST_NEW,
        passes=PASSES_ASKED if asked else PASSES,
        least_steps=MORE_STEPS if asked or version is None else STEPS,
    )
