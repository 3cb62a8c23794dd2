"""An update, from the answers that make it due to the version that drafts: its story, its record, and what it is of.

Answers are stored (`store`). When enough are new the update is due, and waits for a quiet moment, for the machine and
for room in the hour (`scheduler`). A `Job` says what is wanted, and the training process does it (`training.process`).
TRAINING: answers are selected (`material.replay`), the drafter learns from them (`training.worker`, `training.steps`).
JUDGING: what came of it is held against what is served, on answers that nobody trains on (`training.evaluate`: the
gate). PUBLISHING: a version is written (`adapters.store`), which the assistant takes up at the next quiet moment; what
was refused is kept to go on from.

One record, `Update`, is all that travels: in the job, in what the process says while it works, in the history and on
the page. Benchmarks and drift runs go the same way, only that they wait (`lab.stream`). Neither numpy nor torch is
loaded here: the process reads its job before the limits are set that they read when they load.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from omnidraft.processes.threads import physical_cores
from omnidraft.storage.files import read_as

Outcome = Literal["running", "published", "refused", "failed", "interrupted"]
Estimates = dict[str, dict[str, float]]  # "old" and "new" -> greedy, overlap, tokens (see evaluate.py)


class State(StrEnum):
    """Where an update is; IDLE when it is over."""

    IDLE = "idle"
    TRAINING = "training"
    JUDGING = "judging"
    PUBLISHING = "publishing"


@dataclass(frozen=True, slots=True)
class Update:
    """One update, running or over.

    drafter, target: names; vocabulary: the target vocabulary's fingerprint; version: what was published; reason: a
    sentence; losses: one per optimizer step, nats; tokens: drafter pieces learned from; before, after: held-out
    acceptance estimates, {} until known; ended: None until all is done; seconds: of the job; cpu_seconds, peak_mb: of
    the process, 0 until it finished; through: newest replay ordinal it has seen.
    """

    number: int
    started: float
    drafter: str
    target: str
    vocabulary: str
    outcome: Outcome = "running"
    reason: str = ""
    version: str | None = None
    step: int = 0
    steps: int = 0
    tokens: int = 0
    answers_new: int = 0
    answers_replayed: int = 0
    losses: tuple[float, ...] = ()
    before: Estimates = field(default_factory=dict)
    after: Estimates = field(default_factory=dict)
    ended: float | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0
    state: State = State.TRAINING
    through: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Update:
        """As in `read_as`."""
        return read_as(cls, {**values, "state": State(values.get("state", State.IDLE))})

    @classmethod
    def from_line(cls, line: str) -> Update | None:
        """What the training process said; None for what is no update."""
        try:
            return cls.of(json.loads(line))
        except (ValueError, TypeError, AttributeError):
            return None

    def said(self, outcome: Outcome, words: str) -> Update:
        """With what came of it, and why in a sentence."""
        text = words.strip()
        return replace(self, outcome=outcome, reason=text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))

    def concluded(self, code: int | None, last_words: str, why: str = "") -> Update:
        """When its process is gone. why: the reason this program ended it, if it did."""
        over = replace(self, ended=time.time(), state=State.IDLE)
        if self.outcome != "running":
            return over
        if why:
            return over.said("interrupted", why)
        if code is not None and code < 0:
            return over.said("interrupted", "The training process was ended from outside.")
        return over.said("failed", last_words or "the training process gave up")

    def doing(self) -> str:
        """What the process does, in a sentence."""
        if not self.steps:
            return "Getting ready."
        if self.state is State.JUDGING:
            return "Judging what was trained by answers it did not train on."
        if self.state is State.PUBLISHING:
            return "Writing what was trained as a version."
        return f"Training on {self.answers_new} new and {self.answers_replayed} earlier answers."


MOST_NEW = 64  # new answers of one update; a backlog is worked off oldest first
PASSES, STEPS = 2, 40
MOST_ASKED, PASSES_ASKED = 512, 6  # of an update somebody asked for: one long one takes less than many short ones
# Of such a one, and where nothing is served yet: twelve long answers teach .25 then, with half of it .11 (measured
# with as many windows in half the steps).
MORE_STEPS = 80
# Of one optimizer step; of long answers fewer windows do. With eight windows, the paper's batch, the same time taught
# three quarters of it (80 answers of mathematics, read twice: held-out acceptance .661 to .677, with four .681).
WINDOWS_PER_STEP, PIECES_READ = 4, 384


@dataclass(frozen=True)
class Job:
    """What is asked of the training process, as one line of JSON. update: as it begins, and then as far as it is.

    drafter: its GGUF; fingerprint: of that file; replay: the store's file; table: the expansion table's; store: folder
    of the adapter versions; parent: name of the version served, None for the bare drafter; start: weights served, to
    begin with unless there is a candidate trained from them, None: an adapter that changes nothing; inherited:
    conversations `start` was trained on. gated: publish
    only what is better than what is served; else every update. passes: over everything; least_steps: more passes while
    that makes fewer steps, for a handful moves nothing (after 40 answers, with as many
    windows in half the steps: mathematics .44 accepted with these at least, .42 with twice as many, functions .25 and
    .27, for half the time). most_new: answers an update learns from at most,
    replayed ones not counted.
    """

    update: Update
    drafter: str
    fingerprint: str
    replay: str
    table: str
    store: str
    parent: str | None = None
    start: str | None = None
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
    seed: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Job:
        values = json.loads(line)
        return read_as(cls, {**values, "update": Update.of(values["update"])})  # `with_keys` adds what it does not know

    @property
    def threads(self) -> int:
        """Torch threads that stay inside the budget when they all work; one at least."""
        return threads_within(self.cpu_percent)


def threads_within(cpu_percent: int) -> int:
    """Threads that stay inside this share of the processor when they all work; one at least."""
    return max(1, int(physical_cores() * cpu_percent / 100))
