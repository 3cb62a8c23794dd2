"""What a race is asked for, and what a page shows of one while it goes on: values, which `race_job` fills."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnidraft.app.live import Live
from omnidraft.lab.experiment import Turn
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import LANES, Lane, Score
from omnidraft.learning.update import Update
from omnidraft.settings.config import AppSettings, DraftSettings, SamplingSettings
from omnidraft.storage.files import real

MOST_TOKENS = 160  # of an answer
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
    most_tokens: int = MOST_TOKENS

    @property
    def sampling(self) -> SamplingSettings:
        most = min(self.settings.sampling.longest, self.most_tokens)
        return replace(self.settings.sampling, seed=self.settings.sampling.seed or 0, max_tokens=most)

    @property
    def draft(self) -> DraftSettings:
        return replace(self.settings.draft, enabled=True, lookup=self.copies)

    @property
    def named_lesson(self) -> dict[str, Prompt]:
        """The lesson, by the names of conversations, which say what was asked of whom and how: answers that are stored
        are known by them."""
        how = f"{real(self.target)}|{replace(self.sampling, seed=None)}|"
        return {f"race-{hashlib.sha256((how + one.plain).encode()).hexdigest()[:20]}": one for one in self.lesson}

    def same_lesson(self, other: RacePlan) -> bool:
        return self.drafter == other.drafter and self.named_lesson == other.named_lesson


def silent() -> dict[Lane, Live]:
    """Both lanes, before an answer begins in one."""
    return {lane: Live(phase="done") for lane in LANES}


@dataclass(slots=True)
class RaceView:
    """What a page shows of a race. phase: loading, racing, teaching, training, raced, taught, stopped,
    failed. lanes: in each the answer being written, or the last one. done, of: prompts, answers or steps of the phase.
    before, after: the scores, that of the race under way growing. given: answers to the lesson that are stored; lesson:
    prompts of the one that is, or was, taught; taught: what came of it; aside: whether it stands still for somebody
    else."""

    phase: str = "loading"
    lanes: dict[Lane, Live] = field(default_factory=silent)
    prompt: str = ""
    number: int = 0
    turns: list[Turn[Lane]] = field(default_factory=list)
    before: Score | None = None
    after: Score | None = None
    done: int = 0
    of: int = 0
    given: int = 0
    lesson: int = 0
    taught: Update | None = None
    aside: bool = False
    error: str = ""

    @property
    def share(self) -> float:
        return self.done / self.of if self.of else 0.0
