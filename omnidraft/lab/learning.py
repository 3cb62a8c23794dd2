"""Learning in a drift run: hands each answer to the app's own learner and says what to draft with from then on.

Loads torch. It captures, trains and judges nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.store import RunState
from omnidraft.learning.material.expansions import table_file
from omnidraft.learning.material.record import CAPTURE, Answered, Pairing, record_of
from omnidraft.learning.training.stream import StreamLearner
from omnidraft.settings.config import LearningSettings, SamplingSettings
from omnidraft.vocab import PairMap

_OFTEN = 8  # answers of an update: a run is short


class RunLearner:
    """Trains the drafter during one run. What it knows is in the run's folder."""

    capture = CAPTURE  # of the target's top ids, at every generated position

    def __init__(self, state: RunState, settings: LearningSettings | None = None) -> None:
        self._state, self._settings = state, settings or LearningSettings(interval=_OFTEN)
        self._stream: StreamLearner | None = None

    def switched(self, folder: Path, engine: Engine, pair: PairMap) -> Path | None:
        """A target was loaded. Returns the adapter to draft with, None for the bare drafter: what this vocabulary has
        learned; a new one starts warm from the last."""
        options, drafter = self._state.options, Path(self._state.drafter)
        if self._stream is None:
            self._stream = StreamLearner(folder, drafter, self._settings, options.seed, threads=options.threads)
        name = engine.target.model.name
        choice = self._stream.switched(pair.target.fingerprint, name, table_file(folder, pair))
        assert engine.drafter is not None
        self._pairing = Pairing(pair, engine.drafter.template, name, choice)
        return choice.adapter

    def answered(self, prompt: Prompt, tokens: Sequence[Token], finished: Finished) -> Path | None:
        """Learn from an answer. Returns the adapter from now on."""
        stream = self._stream
        assert stream is not None  # there was a target to answer
        sampling = SamplingSettings(temperature=self._state.options.temperature)
        answer = Answered(AnswerRequest(prompt.messages, sampling, source=prompt.id), tokens, finished)
        if (record := record_of(answer, self._pairing)) is not None:
            stream.add(replace(record, task=prompt.task))
        return stream.choice.adapter
