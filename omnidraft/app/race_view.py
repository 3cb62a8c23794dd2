"""What a race is asked for, what a page shows of one while it goes on, and how long it takes: values, which `race_job`
fills. Knows no models and no page."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from omnidraft.app.live import Live
from omnidraft.lab.experiment import Turn
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import LANES, Lane, Score
from omnidraft.learning.update import MORE_STEPS, PASSES_ASKED, PIECES_READ, WINDOWS_PER_STEP, Update
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


# How long a race and a lesson take, phase by phase: by what this race's answers took, and past updates. Where nobody
# has trained this drafter here, a rule of thumb tells.


SHORT = 600.0  # seconds that are offered first
FEWEST = 12  # prompts of a lesson: fewer teach nothing
_EVERY = 4  # prompts by which a lesson is longer or shorter
_TAUGHT = 7 / 8  # of the answers; the others are held out
# On one thread, by what updates of the bundled drafter took (docs/measurements.md); and what comes with every update,
# its libraries, the drafter, judging.
_STEP_OF_A_PARAMETER, _BESIDES = 0.35 / 22.4e6, 10.0

Needed = dict[str, float]  # seconds of answers, training and racing that are still to come


@dataclass(frozen=True, slots=True)
class Offer:
    """A lesson: its first `prompts`, `given` of which are answered; needed: for the rest, training and the race."""

    prompts: int
    given: int
    needed: Needed

    @property
    def seconds(self) -> float:
        return sum(self.needed.values())


@dataclass(slots=True)
class Times:
    """What was measured. pairs: seconds of a prompt in both lanes; answers: of one drafted answer; read: ids of an
    answer and its prompt; step: seconds of a step of training; measured: whether that comes from updates."""

    pairs: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    step: float = 0.0
    measured: bool = False

    def racing(self, prompts: int) -> float:
        return prompts * fmean(self.pairs) if self.pairs else 0.0

    def answering(self, prompts: int) -> float:
        return prompts * fmean(self.answers) if self.answers else 0.0

    def training(self, prompts: int) -> float:
        """Of a whole lesson of so many."""
        windows = math.ceil(_TAUGHT * prompts)
        at_once = min(WINDOWS_PER_STEP, math.ceil(PIECES_READ / max(fmean(self.read) if self.read else 1.0, 1.0)))
        return _BESIDES + self.step * max(MORE_STEPS, PASSES_ASKED * math.ceil(windows / at_once))

    def lesson(self, prompts: int, given: int, raced: int) -> Offer:
        answers = self.answering(max(0, prompts - given))
        needed = {"answers": answers, "training": self.training(prompts), "racing": self.racing(raced)}
        return Offer(prompts, min(given, prompts), needed)

    def offers(self, most: int, given: int, raced: int) -> list[Offer]:
        """The lesson that is over in about ten minutes, and the whole one of `most` prompts if that is longer."""
        sizes = range(min(FEWEST, most), most, _EVERY)
        short = [one for n in sizes if (one := self.lesson(n, given, raced)).seconds <= SHORT]
        whole = self.lesson(most, given, raced)
        if whole.seconds <= SHORT or not sizes:
            return [whole]
        return [short[-1] if short else self.lesson(sizes[0], given, raced), whole]


def step_seconds(updates: Iterable[Update], drafter: str, parameters: int, threads: int) -> tuple[float, bool]:
    """(seconds of a step of training with so many threads, whether they were measured). updates: newest first."""
    for one in updates:
        if one.drafter == drafter and one.step == one.steps and one.steps and one.cpu_seconds > 0:
            return one.cpu_seconds / one.steps / threads, True
    return parameters * _STEP_OF_A_PARAMETER / threads, False
