"""This project's own ways: plain with and without a drafter beside it, only copying, and drafting with a drafter that
has or has not learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.bench.pairs import PLAIN as PLAIN_WAY
from omnidraft.bench.pairs import Pair, Way, draft_settings, engine_of
from omnidraft.bench.peers.peer import PLAIN, Answer, Burst, Models, Question, answer_of
from omnidraft.decoding.events import Event, Round, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.trace import seconds
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import DataHome

LOOKUP, UNTRAINED, LEARNED = "lookup", "untrained", "learned"
_WAYS = {PLAIN: PLAIN_WAY, LOOKUP: Way("lookup"), UNTRAINED: Way("adaptive"), LEARNED: Way("adaptive", LEARNED)}


class Ours:
    """One loaded target, GGUF or folder, with two drafters: each has an n-gram cache and a memory of its own."""

    exact = True

    def __init__(self, home: DataHome, models: Models, target: Path) -> None:
        self.notes: list[str] = []
        self.ways = tuple(way for way in _WAYS if way != LEARNED or models.taught)
        self._pair = Pair(home, target, models.drafter, ModelSettings(threads=models.threads, n_ctx=models.n_ctx))
        if models.taught:
            self._pair.add(LEARNED, *models.taught, self._pair.cache_after(models.learned))

    def answer(self, way: str, question: Question) -> Answer:
        return answer_of(_bursts(list(self._pair.events(_WAYS[way], question.messages, question.sampling))))

    def close(self) -> None:
        self._pair.close()


class Alone:
    """The target with no drafter, so that the kernel of attention is the one that suits plain decoding."""

    exact = True
    ways: tuple[str, ...] = (PLAIN,)

    def __init__(self, home: DataHome, models: Models) -> None:
        self.notes: list[str] = []
        self._assistant = Assistant(home, ephemeral=True)
        settings = ModelSettings(threads=models.threads, n_ctx=models.n_ctx)
        self._assistant.load(models.target, None, settings, CacheSettings(), adapter=None)

    def answer(self, way: str, question: Question) -> Answer:
        engine_of(self._assistant).forget()
        asked = AnswerRequest(list(question.messages), question.sampling, draft_settings(way))
        return answer_of(_bursts(list(self._assistant.answer(asked))))

    def close(self) -> None:
        self._assistant.close()


def _bursts(events: Sequence[Event]) -> Iterator[Burst]:
    """A burst a round, by the time that rounds took."""
    ids = iter([event.id for event in events if isinstance(event, Token)])
    rounds = [event for event in events if isinstance(event, Round)]
    for done, at in zip(rounds, accumulate(seconds(one) for one in rounds), strict=True):
        yield Burst(tuple(islice(ids, done.emitted)), at)
