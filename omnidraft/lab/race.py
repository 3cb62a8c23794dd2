"""A race: the same prompts answered plainly and drafted, streamed as typed events, with the proof of equal text.

Each prompt is answered twice with the same seed and from empty KV caches, the two ways taking turns in going first, so
that whatever else the machine does meets both. `teach` answers prompts and lets the app's own learner train on them.
What is interrupted for somebody else's question is asked again, so that no time of it counts. Both work on whatever
answers like an assistant does; they know no page, and keep nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
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
    """Both answers to a prompt. same: the same tokens from first to last. took: seconds of both lanes, from being asked
    to the end."""

    plain: Trace
    drafted: Trace
    took: dict[Lane, float] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An answer was cut, for somebody else is to be answered; it is asked again when the reader goes on."""


RaceEvent = Began | Said | Paired | Interrupted


def _never() -> bool:
    return False


def race(
    assistant: Any, prompts: Sequence[Prompt], sampling: SamplingSettings, draft: DraftSettings,
    cancelled: Callable[[], bool] = _never, interrupted: Callable[[], bool] = _never,
) -> Iterator[RaceEvent]:  # fmt: skip
    """Answer every prompt in both lanes. Ends early once `cancelled`; a prompt that is cut so makes no pair. One that
    is `interrupted` is asked again in both lanes, which share their minutes."""
    ways = {"plain": PLAIN, "drafted": draft}
    for number, prompt in enumerate(prompts):
        seeded = replace(sampling, seed=number if sampling.seed is None else sampling.seed + number)
        asked = {lane: AnswerRequest(prompt.messages, seeded, ways[lane]) for lane in LANES}
        while (pair := (yield from _both(assistant, number, prompt, asked, cancelled, interrupted))) is None:
            if cancelled():
                return
            yield Interrupted()
        yield pair


def _both(
    assistant: Any, number: int, prompt: Prompt, asked: dict[Lane, AnswerRequest], cancelled: Callable[[], bool],
    interrupted: Callable[[], bool],
) -> Generator[RaceEvent, None, Paired | None]:  # fmt: skip
    """The pair, or None if it was cut."""
    found: dict[Lane, Trace] = {}
    took: dict[Lane, float] = {}
    for lane in LANES if number % 2 == 0 else LANES[::-1]:
        yield Began(number, lane, prompt)
        began, events = time.monotonic(), list[Event]()
        assistant.engine.forget()
        with closing(assistant.answer(asked[lane])) as answer:
            for event in answer:
                events.append(event)
                yield Said(lane, event)
                if cancelled() or interrupted():
                    return None
        found[lane], took[lane] = record(events), time.monotonic() - began
    return Paired(found["plain"], found["drafted"], took)


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
    """How far a lesson is. phase: teaching, then training; done: answers or steps, of `of`; took: seconds of the last
    answer."""

    phase: str
    done: int
    of: int
    took: float = 0.0


def teach(
    assistant: Any, prompts: dict[str, Prompt], sampling: SamplingSettings, draft: DraftSettings,
    cancelled: Callable[[], bool], interrupted: Callable[[], bool] = _never,
) -> Iterator[Lesson | Interrupted]:  # fmt: skip
    """Answer the prompts, then let the learner train on all of them at once, until it serves what it made. Each prompt
    is a conversation, by its name here; those that wait for an update are not asked again. An answer that is
    `interrupted` teaches nothing and is asked again."""
    given = unlearned(assistant) & prompts.keys()
    done = len(given)
    for name, prompt in prompts.items():
        if name in given:
            continue
        request = AnswerRequest(prompt.messages, sampling, draft, source=name, capture=assistant.capture)
        while (took := _answered(assistant, request, lambda: cancelled() or interrupted())) is None:
            if cancelled():
                return
            yield Interrupted()
        done += 1
        yield Lesson("teaching", done, len(prompts), took)
    for status in trained(assistant.learner, cancelled):
        update = status.update
        yield Lesson("training", update.step, update.steps) if update is not None else Lesson("training", 0, 0)


def unlearned(assistant: Any) -> set[str]:
    """The names of the conversations whose answers are stored and wait for an update."""
    learner = assistant.learner
    return learner.stores.unlearned(learner.pairing) if learner.pairing is not None else set()


def _answered(assistant: Any, request: AnswerRequest, cut: Callable[[], bool]) -> float | None:
    """Seconds of an answer; None if it was cut, and the learner has not heard of it."""
    began = time.monotonic()
    assistant.engine.forget()
    with closing(assistant.answer(request)) as answer:
        for _ in answer:
            if cut():
                return None
    return time.monotonic() - began


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
