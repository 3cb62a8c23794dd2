"""This project's own ways: plain, only copying, and drafting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

from omnidraft.bench.pairs import Pair
from omnidraft.bench.peers.peer import PLAIN, Answer, Burst, Models, Question, answer_of
from omnidraft.decoding.events import Event, Round, Token
from omnidraft.lab.trace import seconds
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import DataHome

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
