"""How long a race and a lesson take, phase by phase: by what this race's answers took, and past updates.

Where nobody has trained this drafter here, a rule of thumb tells. Knows no models and no page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean

from omnidraft.learning.update import MORE_STEPS, PASSES_ASKED, Update

SHORT = 600.0  # seconds that are offered first
FEWEST = 12  # prompts of a lesson: fewer teach nothing
_EVERY = 4  # prompts by which a lesson is longer or shorter
# A step of training as `learning.training.steps` groups it, and that one answer of eight is held out.
_WINDOWS, _READ, _TAUGHT = 8, 768, 7 / 8
# On one thread, by what updates of the bundled drafter took (docs/measurements.md); and what comes with every update,
# its libraries, the drafter, judging.
_STEP_OF_A_PARAMETER, _BESIDES = 0.65 / 22.4e6, 10.0

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
        at_once = min(_WINDOWS, math.ceil(_READ / max(fmean(self.read) if self.read else 1.0, 1.0)))
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
