"""The models of a drift run: one target at a time beside the drafter, and the run's own n-gram cache on disk.

Each vocabulary pair has its table in the run's cache file, so a target that comes back finds what it left behind, and
targets of one family share theirs. Nothing of a profile's is read or changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine, Memory
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.store import Options, RunState
from omnidraft.learning.material.expansions import table_files
from omnidraft.learning.material.record import CAPTURE, Answered, Pairing, record_of
from omnidraft.learning.training.stream import StreamLearner
from omnidraft.settings.config import CacheSettings, DraftSettings, LearningSettings, ModelSettings, SamplingSettings
from omnidraft.vocab import NgramCache, PairMap, Translator

PLAIN = DraftSettings(enabled=False)


def draft_settings(options: Options) -> DraftSettings:
    if options.draft_length is None:
        return DraftSettings(mode="adaptive")
    return DraftSettings(mode="fixed", length=options.draft_length)


class LoadedTarget:
    """A target with the drafter and the cache of their pair. Close it before the next one is loaded."""

    def __init__(self, target: Path, drafter: LlamaDrafter, options: Options, ngrams: Path, maps: Path) -> None:
        self.path = target
        self.cache: NgramCache | None = None
        self._closing = ExitStack()
        with ExitStack() as opening:
            model = open_target(target, ModelSettings(threads=options.threads))
            opening.callback(model.close)
            self.pair = PairMap.build(drafter.vocabulary, model.vocabulary, maps)
            if options.cache != "off":
                self.cache = NgramCache.open(ngrams, self.pair, CacheSettings(seed=options.cache == "seeded"))
                opening.callback(self.cache.close)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            drafter.rewind(0)
            template = ChatTemplate.from_model(drafter.info, drafter.vocabulary)
            self.engine.pair_drafter(drafter, template, Translator(self.pair, self.cache))
            self._closing = opening.pop_all()
        self.drafting = Memory()
        self.plain = Memory()
        if options.draft_length is None:  # the adaptive length goes by cost; a fixed one has no use for it
            self.drafting = Memory.with_cost(self.engine.measured())

    @property
    def ngrams(self) -> tuple[int, int]:
        """How many n-grams the cache holds, and how many of them are seeds."""
        stats = self.cache.stats() if self.cache is not None else {"entries": 0, "seeded": 0}
        return stats["entries"], stats["seeded"]

    def close(self) -> None:
        self._closing.close()


# Learning in a drift run: hands each answer to the app's own learner and says what to draft with from then on. Loads
# torch. It captures, trains and judges nothing itself.


class RunLearner:
    """Trains the drafter during one run. What it knows is in the run's folder, so that a resumed run goes on."""

    capture = CAPTURE  # of the target's top ids, at every generated position

    def __init__(self, state: RunState, settings: LearningSettings | None = None) -> None:
        self._state, self._settings = state, settings or LearningSettings()
        self._stream: StreamLearner | None = None

    def switched(self, folder: Path, engine: Engine, pair: PairMap) -> Path | None:
        """A target was loaded. Returns the adapter to draft with, None for the bare drafter: what this vocabulary has
        learned; a new one starts warm from the last."""
        options, drafter = self._state.options, Path(self._state.drafter)
        if self._stream is None:
            self._stream = StreamLearner(folder, drafter, self._settings, options.seed, threads=options.threads)
        name = engine.target.model.name
        tables = table_files(folder, pair)
        choice = self._stream.switched(pair.target.fingerprint, name, tables)
        assert engine.drafter is not None
        self._pairing = Pairing(pair, engine.drafter.template, name, choice)
        return choice.adapter

    def answered(self, prompt: Prompt, tokens: Sequence[Token], finished: Finished) -> Path | None:
        """Learn from an answer, once: a run killed behind an update answers its prompt again. Returns the adapter from
        now on."""
        stream = self._stream
        assert stream is not None  # there was a target to answer
        sampling = SamplingSettings(temperature=self._state.options.temperature)
        answer = Answered(AnswerRequest(prompt.messages, sampling, source=prompt.id), tokens, finished)
        record = None if stream.holds(prompt.id) else record_of(answer, self._pairing)
        if record is not None:
            stream.add(replace(record, task=prompt.task))
        return stream.choice.adapter
