"""What a race is asked for, and what a page shows of one while it goes on: values, which `race_job` fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnidraft.app.live import Live
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import LANES, Lane, Paired, Score, Taught, Training
from omnidraft.settings.config import AppSettings, DraftSettings, SamplingSettings

UNDER_WAY = ("loading", "racing", "teaching", "training")


@dataclass(frozen=True)
class RacePlan:
    """What is raced. raced: prompts that both lanes answer; lesson: those the drafter is taught with, none of them
    raced; kept: the profile's own drafter learns, for good."""

    target: Path
    drafter: Path
    settings: AppSettings
    raced: Sequence[Prompt]
    lesson: Sequence[Prompt] = ()
    kept: bool = False
    copies: bool = False
    topic: str = ""
    most_tokens: int = 160

    @property
    def sampling(self) -> SamplingSettings:
        most = min(self.settings.sampling.longest, self.most_tokens)
        return replace(self.settings.sampling, seed=self.settings.sampling.seed or 0, max_tokens=most)

    @property
    def draft(self) -> DraftSettings:
        return replace(self.settings.draft, enabled=True, lookup=self.copies)


@dataclass(slots=True)
class LaneView:
    """What a lane shows: the answer being written, or the last one."""

    text: str = ""
    live: Live = field(default_factory=Live)
    writing: bool = False


@dataclass(slots=True)
class RaceView:
    """What a page shows of a race. phase: loading, racing, teaching, training, raced, taught, stopped,
    failed. share: of the phase that is done. before, after: the scores, that of the race under way growing."""

    phase: str = "loading"
    lanes: dict[Lane, LaneView] = field(default_factory=lambda: {lane: LaneView() for lane in LANES})
    prompt: str = ""
    number: int = 0
    pairs: list[Paired] = field(default_factory=list)
    before: Score | None = None
    after: Score | None = None
    share: float = 0.0
    since: float = 0.0  # when this phase began, by the monotonic clock
    doing: str = ""
    error: str = ""
    version: str = ""


def progress(event: Taught | Training) -> tuple[float, str]:
    """(share, words) of what a lesson is at."""
    if isinstance(event, Taught):
        return event.done / event.total, f"Answer {event.done} of {event.total} to learn from"
    update = event.status.update
    if update is None or not update.steps:
        return 0.0, "The training begins"
    return update.step / update.steps, f"Training: step {update.step} of {update.steps}"
