"""What learning tells about itself: plain values for pages and the command line. They know nothing of how it works."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

State = Literal["off", "unavailable", "idle", "training", "paused"]
Outcome = Literal["running", "published", "refused", "failed", "interrupted"]
Origin = Literal["none", "own", "warm start", "file"]
Estimates = dict[str, dict[str, float]]  # "old" and "new" -> direct, greedy, overlap, tokens (see evaluate.py)


@dataclass(frozen=True, slots=True)
class Start:
    """What a drafter can draft with besides the versions it has for a vocabulary.

    warm: what it learned for another vocabulary, while `target` answered; else it is the drafter as it came.
    """

    warm: bool
    served: bool
    target: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """One update, running or over.

    vocabulary: the target vocabulary's fingerprint; version: what was published; reason: a sentence;
    losses: one per optimizer step, nats; tokens: drafter pieces learned from; before, after: held-out acceptance
    estimates, {} until known; seconds: of the job; cpu_seconds, peak_mb: of the process, 0 until it finished.
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


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """What one answer cost under an adapter version ("" for the bare drafter). Counts as in `Statistics`.

    proposed, tested, accepted: of what the drafter said, without copies of earlier text. plain, plain_seconds: the
    answer's rounds that nothing was drafted for: what they took is what the others are compared with.
    """

    time: float
    version: str
    target: str
    tokens: int
    passes: int
    proposed: int
    tested: int
    accepted: int
    seconds: float
    plain: int = 0
    plain_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One adapter version. live_answers, live_acceptance: of the answers it served (accepted / tested); the rest as in
    `Meta` and `Update`."""

    name: str
    path: Path
    bytes: int
    created: float
    served: bool
    rejected: bool
    parent: str | None
    target: str
    loss_name: str
    rank: int
    loss: float
    answers: int
    tokens: int
    seconds: float
    before: Estimates
    after: Estimates
    live_answers: int
    live_acceptance: float | None
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """Everything a page shows at a glance.

    version grows with every change. state: off (in the settings), unavailable (nothing to train, or another program
    does), idle (waits for answers), training, paused (stopped for an answer or by the user: `held`). reason: a
    sentence. waiting: new answers; interval: an update begins at so many. served: version name, None for the bare
    drafter; merged: served as one file with the drafter. pid, memory_mb: of the training process, None while there is
    none. day_seconds: processor time of the updates of the last 24 hours.
    """

    version: int
    state: State
    reason: str
    waiting: int
    interval: int
    held: bool
    update: Update | None
    last: Update | None
    served: str | None
    origin: Origin
    merged: bool
    pid: int | None
    memory_mb: float | None
    replay_answers: int
    replay_tokens: int
    replay_bytes: int
    replay_limit: int
    day_seconds: float
