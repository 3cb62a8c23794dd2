"""A race: the same prompts answered plainly and drafted, streamed as typed events, with the proof of equal text.

Each prompt is answered twice with the same seed and from empty KV caches, the two ways taking turns in going first, so
that whatever else the machine does meets both. `teach` answers prompts and lets the app's own learner train on them.
Both work on whatever answers like an assistant does; they know no page, and keep nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from omnidraft.decoding.events import Event
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.statistics import Trace, interval, record
from omnidraft.learning.learned import Status
from omnidraft.settings.config import DraftSettings, SamplingSettings

Lane = Literal["plain", "drafted"]
LANES: tuple[Lane, ...] = ("plain", "drafted")
PLAIN = DraftSettings(enabled=False)
GRACE = 12.0  # seconds without a training process before a wait for one is given up
PATIENCE = 900.0  # seconds an update may take


@dataclass(frozen=True, slots=True)
class Began:
    """A lane begins with a prompt, counted from 0."""

    number: int
    lane: Lane
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Said:
    """An event of the answer in a lane."""

    lane: Lane
    event: Event


@dataclass(frozen=True, slots=True)
class Paired:
    """Both answers to a prompt. same: the same tokens from first to last."""

    plain: Trace
    drafted: Trace

    @property
    def same(self) -> bool:
        return self.plain.ids == self.drafted.ids


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


RaceEvent = Began | Said | Paired


def race(
    assistant: Any, prompts: Sequence[Prompt], sampling: SamplingSettings, draft: DraftSettings,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[RaceEvent]:  # fmt: skip
    """Answer every prompt in both lanes. Ends early once `cancelled`; a prompt interrupted so makes no pair."""
    ways = {"plain": PLAIN, "drafted": draft}
    for number, prompt in enumerate(prompts):
        found: dict[str, list[Event]] = {}
        for lane in LANES if number % 2 == 0 else LANES[::-1]:
            yield Began(number, lane, prompt)
            found[lane] = events = []
            assistant.engine.forget()
            seeded = replace(sampling, seed=number if sampling.seed is None else sampling.seed + number)
            for event in assistant.answer(AnswerRequest(prompt.messages, seeded, ways[lane])):
                events.append(event)
                yield Said(lane, event)
            if cancelled():
                return
        yield Paired(record(found["plain"]), record(found["drafted"]))


def score(pairs: Sequence[Paired]) -> Score | None:
    """What a race came to; None without a pair."""
    if not pairs:
        return None
    plain, drafted = [p.plain for p in pairs], [p.drafted for p in pairs]
    own = [r for trace in drafted for r in trace.rounds if not r.copied]
    proposed = sum(r.proposed for r in own)
    return Score(
        len(pairs),
        plain_speed=1 / per_token(*plain),
        drafted_speed=1 / per_token(*drafted),
        speedup=per_token(*plain) / per_token(*drafted),
        interval=interval([(t.decode, t.tokens) for t in plain], [(t.decode, t.tokens) for t in drafted]),
        acceptance=sum(r.accepted for r in own) / proposed if proposed else None,
        copied=sum(r.accepted for trace in drafted for r in trace.rounds if r.copied),
        same=sum(p.same for p in pairs),
    )  # fmt: skip


def per_token(*traces: Trace) -> float:
    """Seconds of decoding a token took."""
    return max(sum(t.decode for t in traces), 1e-9) / max(sum(t.tokens for t in traces), 1)


class Lesson(NamedTuple):
    """How far a lesson is: teaching, then training; share: of that."""

    phase: str
    share: float
    doing: str


def teach(
    assistant: Any, prompts: Sequence[Prompt], sampling: SamplingSettings, draft: DraftSettings, chat: str,
    cancelled: Callable[[], bool],
) -> Iterator[Lesson]:  # fmt: skip
    """Answer the prompts, then let the learner train on all of them at once, until it serves what it made. Each prompt
    is a conversation named after `chat`."""
    for number, prompt in enumerate(prompts):
        assistant.engine.forget()
        for _ in assistant.answer(
            AnswerRequest(prompt.messages, sampling, draft, source=f"{chat}-{number}", capture=assistant.capture)
        ):
            pass
        if cancelled():
            return
        done, total = number + 1, len(prompts)
        yield Lesson("teaching", done / total, f"Answer {done} of {total} to learn from")
    for status in trained(assistant.learner, cancelled):
        update = status.update
        if update is None or not update.steps:
            yield Lesson("training", 0.0, "The training begins")
        else:
            share, doing = update.step / update.steps, f"Training: step {update.step} of {update.steps}"
            yield Lesson("training", share, doing)


def trained(learner: Any, cancelled: Callable[[], bool]) -> Iterator[Status]:
    """How learning stands, until an update, which is asked for, is over and served.

    Ends too if none begins, for there may be too little to learn from.
    """
    before, begun, now = _number(learner.status()), time.monotonic(), time.monotonic()
    quiet, asked = now, False
    while not cancelled() and now - begun < PATIENCE:
        status, now = learner.status(), time.monotonic()
        if not asked and now - begun > 0.3:  # the last answer may still be on its way
            learner.train_now()
            asked = True
        if status.update is not None or status.state == "training":
            quiet = now
        elif now - quiet > GRACE or (_number(status) != before and _served(status)):
            return
        yield status
        learner.wait(status.version, 0.2)


def _number(status: Status) -> int:
    return status.last.number if status.last is not None else 0


def _served(status: Status) -> bool:
    """Whether what the last update published, if it did, drafts by now."""
    return status.last is None or status.last.version in (None, status.served)
