"""A race: the same prompts answered plainly and drafted, with the proof of equal text, and a lesson for the drafter.

`race` is an experiment of two ways, both with the same seeds. `teach` answers prompts and lets the app learn
from them. Both work on whatever answers like an assistant does; they know no page, and keep nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from omnidraft.decoding.events import Event
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.experiment import Interrupted, Told, Turn, experiment, same_ids
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.statistics import Trace, acceptance, interval, per_second
from omnidraft.learning.scheduler import Status
from omnidraft.settings.config import DraftSettings, SamplingSettings

Lane = Literal["plain", "drafted"]
LANES: tuple[Lane, ...] = ("plain", "drafted")
PLAIN = DraftSettings(enabled=False)
GRACE = 12.0  # seconds without a training process before a wait for one is given up
Answers = Generator[Event, None, None]


@dataclass(frozen=True, slots=True)
class Score:
    """A race as a whole. Speeds in tokens per second of decoding; speedup: of the summed times per token; interval: its
    95%, over prompts, None where they are too few.

    acceptance: accepted / proposed of what the drafter said, None if it said nothing; copied: tokens that were copied
    from earlier text. same: answers whose texts are equal.
    """

    answers: int
    plain_speed: float
    drafted_speed: float
    speedup: float
    interval: tuple[float, float] | None
    acceptance: float | None
    copied: int
    same: int


def race(
    assistant: Any, prompts: Sequence[Prompt], sampling: SamplingSettings, draft: DraftSettings,
    cut: Callable[[], bool] = bool,
) -> Iterator[Told[Lane]]:  # fmt: skip
    """Answer every prompt in both lanes."""
    drafts = {"plain": PLAIN, "drafted": draft}

    def ask(lane: Lane, number: int, prompt: Prompt) -> Answers:
        assistant.engine.forget()
        seeded = replace(sampling, seed=number + (sampling.seed or 0))
        return assistant.answer(AnswerRequest(prompt.messages, seeded, drafts[lane]))

    return experiment(LANES, prompts, ask, cut)


def score(turns: Sequence[Turn[Lane]]) -> Score | None:
    """What a race came to; None without a turn."""
    if not turns:
        return None
    plain, drafted = ([turn.traces[lane] for turn in turns] for lane in LANES)
    plain_speed, drafted_speed = per_second(plain) or 0.0, per_second(drafted) or 0.0
    rounds = [done for trace in drafted for done in trace.rounds]
    return Score(
        len(turns),
        plain_speed,
        drafted_speed,
        speedup=drafted_speed / plain_speed if plain_speed else 1.0,
        interval=interval(plain, drafted),
        acceptance=acceptance([Trace(rounds=[done for done in rounds if not done.copied])]),
        copied=sum(done.accepted for done in rounds if done.copied),
        same=same_ids(plain, drafted),
    )


class Lesson(NamedTuple):
    """How far a lesson is. phase: teaching, then training; done: answers or steps, of `of`; took: seconds of the last
    answer."""

    phase: str
    done: int
    of: int
    took: float = 0.0


def teach(
    assistant: Any, prompts: dict[str, Prompt], sampling: SamplingSettings, draft: DraftSettings,
    cut: Callable[[], bool], cancelled: Callable[[], bool],
) -> Iterator[Lesson | Interrupted]:  # fmt: skip
    """Answer the prompts, then have all of them learned from at once, until what came of it serves. Each prompt is a
    conversation, by its name here; those that wait for an update are not asked again. An answer that is cut teaches
    nothing and is asked again."""
    given = assistant.learned.unlearned()
    new = {name: prompt for name, prompt in prompts.items() if name not in given}
    names = [*new]

    def ask(_way: str, number: int, prompt: Prompt) -> Answers:
        assistant.engine.forget()
        request = AnswerRequest(prompt.messages, sampling, draft, source=names[number], capture=assistant.capture)
        return assistant.answer(request)

    for event in experiment(("drafted",), [*new.values()], ask, cut):
        if isinstance(event, Turn):
            yield Lesson("teaching", len(prompts) - len(new) + event.number + 1, len(prompts), event.took["drafted"])
        elif isinstance(event, Interrupted):
            yield event
    for status in trained(assistant.learner, cancelled):
        update = status.update
        yield Lesson("training", update.step, update.steps) if update is not None else Lesson("training", 0, 0)


def trained(learner: Any, cancelled: Callable[[], bool]) -> Iterator[Status]:
    """How learning stands, until an update, which is asked for unless one is under way, is over and served.

    Ends too if none begins, for there may be too little to learn from. The reader's time does not count.
    """
    before, begun = _number(learner.status()), time.monotonic()
    quiet, asked = begun, learner.status().update is not None
    while not cancelled():
        status, now = learner.status(), time.monotonic()
        if not asked and now - begun > 0.3:  # the last answer may still be on its way
            learner.train_now()
            asked = True
        if status.update is not None or status.state == "training":
            quiet = now
        elif now - quiet > GRACE or (_number(status) != before and _served(status)):
            return
        yield status
        quiet += time.monotonic() - now
        learner.wait(status.version, 0.2)


def _number(status: Status) -> int:
    return status.last.number if status.last is not None else 0


def _served(status: Status) -> bool:
    """Whether what the last update published, if it did, drafts by now."""
    return status.last is None or status.last.version in (None, status.served)
