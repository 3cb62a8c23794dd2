"""What a program has to offer to be compared: ways of answering, the first of them plain. Knows no program.

An answer is bursts of tokens with their times, cut where it begins to loop. What is counted is the same for all: the
time from the first burst, which ends the reading of the prompt, to the last, over the tokens behind the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple, Protocol

from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.bench.pairs import Pair
from omnidraft.bench.report import Column, sampling_of
from omnidraft.decoding.events import Event, Round, Token
from omnidraft.lab.trace import onset, seconds
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Question:
    """prompt: as ids of the target, the same for every program."""

    messages: Sequence[Message]
    prompt: Sequence[int]
    column: Column
    seed: int
    max_tokens: int

    @property
    def sampling(self) -> SamplingSettings:
        return sampling_of(self.column, seed=self.seed, max_tokens=self.max_tokens)


class Burst(NamedTuple):
    """Tokens that came together, `at` seconds after the question."""

    ids: tuple[int, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """ids: all that was said. tokens, decode: counted ones (above) and their seconds. per_pass: tokens a target pass,
    None where the program does not tell. looped: cut at a loop."""

    ids: list[int]
    tokens: int
    decode: float
    per_pass: float | None
    looped: bool


def answer_of(bursts: Iterable[Burst], passes_are_bursts: bool = True) -> Answer:
    """The answer that came in these bursts; passes_are_bursts: every burst is what one target pass brought."""
    came = [burst for burst in bursts if burst.ids]
    ids = [id for burst in came for id in burst.ids]
    cut = onset(ids)
    kept = came if cut is None else _until(came, cut)
    tokens = sum(len(burst.ids) for burst in kept[1:])
    seconds = kept[-1].at - kept[0].at if kept else 0.0
    per_pass = tokens / (len(kept) - 1) if passes_are_bursts and len(kept) > 1 else None
    return Answer(ids, tokens, seconds, per_pass, cut is not None)


def _until(bursts: Sequence[Burst], tokens: int) -> list[Burst]:
    """Whole bursts until `tokens` are reached."""
    kept: list[Burst] = []
    for burst in bursts:
        if sum(len(one.ids) for one in kept) >= tokens:
            break
        kept.append(burst)
    return kept


@dataclass(frozen=True, slots=True)
class Models:
    """What every program is given. helper: a drafter of the target's own vocabulary, if there is one."""

    target: Path
    drafter: Path
    threads: int
    n_ctx: int
    helper: Path | None = None


class Peer(Protocol):
    """A loaded program. ways: names of its ways, PLAIN first; notes: what it printed or should be known of it; exact:
    whether its ways promise plain decoding's text, also where that is drawn (greedily all do)."""

    ways: tuple[str, ...]
    notes: list[str]
    exact: bool

    def answer(self, way: str, question: Question) -> Answer: ...

    def close(self) -> None: ...


Opening = Callable[[], Peer]


# This project's own ways: plain, only copying, and drafting.


_WAYS = ("lookup", "adaptive")


class Ours:
    """One loaded pair."""

    ways: tuple[str, ...] = (PLAIN, *_WAYS)
    exact = True

    def __init__(self, home: DataHome, models: Models) -> None:
        self.notes: list[str] = []
        settings = ModelSettings(threads=models.threads, n_ctx=models.n_ctx)
        self._pair = Pair(home, models.target, models.drafter, settings)

    def answer(self, way: str, question: Question) -> Answer:
        return answer_of(_bursts(list(self._pair.events(way, question.messages, question.sampling))))

    def close(self) -> None:
        self._pair.close()


def _bursts(events: Sequence[Event]) -> Iterator[Burst]:
    """A burst a round, by the time that rounds took."""
    ids = iter([event.id for event in events if isinstance(event, Token)])
    rounds = [event for event in events if isinstance(event, Round)]
    for done, at in zip(rounds, accumulate(seconds(one) for one in rounds), strict=True):
        yield Burst(tuple(islice(ids, done.emitted)), at)
