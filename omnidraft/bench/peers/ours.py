"""This project's own ways: plain, only copying, and drafting with a drafter that has or has not learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import accumulate, islice
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.prompting.prompted_model import PromptedDrafter
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench.columns import Column
from omnidraft.bench.opened import drafting_of, engine_of, pair_of
from omnidraft.bench.peers.bursts import Answer, Burst, answer_of
from omnidraft.bench.peers.peer import PLAIN, Models, Question
from omnidraft.decoding.events import Event, Round, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.lab.trace import seconds
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import NgramCache, Translator

LOOKUP, UNTRAINED, LEARNED = "lookup", "untrained", "learned"
DRAFTS = {
    PLAIN: DraftSettings(enabled=False),
    LOOKUP: DraftSettings(mode="lookup"),
    UNTRAINED: DraftSettings(),
    LEARNED: DraftSettings(),
}


class Ours:
    """One loaded target, GGUF or folder, with two drafters: each has an n-gram cache and a memory of its own."""

    def __init__(self, home: DataHome, models: Models, target: Path, name: str) -> None:
        self.name, self.notes = name, list[str]()
        self.ways = tuple(way for way in DRAFTS if way != LEARNED or models.taught)
        self._closing = ExitStack()
        try:
            self._assistant = Assistant(home, ephemeral=True)
            self._closing.callback(self._assistant.close)
            settings = ModelSettings(threads=models.threads, n_ctx=models.n_ctx)
            self._assistant.load(target, models.drafter, settings, CacheSettings())
            self._seats = dict.fromkeys(self.ways, drafting_of(self._assistant))
            if models.taught:
                self._seats[LEARNED] = self._second(models, *models.taught)
            self._memories = {way: self._memory(way) for way in self.ways}
        except BaseException:
            self._closing.close()
            raise

    def _second(self, models: Models, file: Path, adapter: Path | None) -> tuple[PromptedDrafter, Translator]:
        """The drafter that learned, and an n-gram cache that has seen what it learned from."""
        model = LlamaDrafter.open(file, ModelSettings(threads=models.threads))
        self._closing.callback(model.close)
        model.set_adapter(str(adapter) if adapter else None)
        cache = NgramCache.open(None, pair_of(self._assistant), CacheSettings())
        self._closing.callback(cache.close)
        for ids in models.learned_ids:
            for token in ids:
                cache.learn(token)
        template = ChatTemplate.from_model(model.info, model.vocabulary)
        return PromptedDrafter(model, template, []), Translator(pair_of(self._assistant), cache)

    def _memory(self, way: str) -> Memory:
        self._sit(way)
        return Memory.with_cost(engine_of(self._assistant).measured())

    def _sit(self, way: str) -> None:
        seat, translator = self._seats[way]
        engine_of(self._assistant).pair_drafter(seat.model, seat.template, translator)

    def answer(self, way: str, question: Question) -> Answer:
        self._sit(way)
        engine = engine_of(self._assistant)
        engine.forget()
        engine.memory = self._memories[way]
        events = list(self._assistant.answer(AnswerRequest(question.messages, question.sampling, DRAFTS[way])))
        return answer_of(_bursts(events))

    def keeps_text(self, way: str, column: Column) -> bool:
        return True

    def close(self) -> None:
        self._closing.close()


def _bursts(events: list[Event]) -> Iterator[Burst]:
    """A burst a round, by the time that rounds took."""
    ids = iter([event.id for event in events if isinstance(event, Token)])
    rounds = [event for event in events if isinstance(event, Round)]
    for done, at in zip(rounds, accumulate(seconds(one) for one in rounds), strict=True):
        yield Burst(tuple(islice(ids, done.emitted)), at)
