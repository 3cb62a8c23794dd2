"""A learner for drift runs: online distillation in the run's own process, as in the paper's Algorithm 2.

After every few answers it trains an adapter on the new answers and as many earlier ones, and the run drafts with it
from then on. One adapter per target vocabulary, a new one starting from the last. Loads torch when it is made.

Unlike the app's training it is not gated, not paused and not bounded in processor time: a run has nobody waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from omnidraft.backends.prompt import ends_without_space, prompt_ids
from omnidraft.config import LearningSettings
from omnidraft.decoding.events import Finished, Token
from omnidraft.engine import Engine
from omnidraft.lab.prompts import Prompt
from omnidraft.learning.adapters.gguf import read_adapter, write_adapter
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.record import Record, gather_candidates
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training.batches import Window, windows
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.steps import make_optimizer, train
from omnidraft.vocab import PairMap

CAPTURE = 48
PASSES = 4  # over the new and the replayed answers of an update


class InlineLearner:
    """`Learner` of a drift run (drift.py). drafter: the GGUF that the run drafts with."""

    capture = CAPTURE

    def __init__(
        self, drafter: Path, settings: LearningSettings | None = None, threads: int = 0, seed: int = 0
    ) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.settings = settings or LearningSettings()
        self._model = TorchDrafter(drafter, rank=self.settings.rank, seed=seed)
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._vocabulary: str | None = None

    def switched(self, folder: Path, engine: Engine, pair: PairMap) -> Path | None:
        """Take up the vocabulary's adapter, or go on with the last one's weights (a warm start)."""
        self._engine, self._pair, self._table = engine, pair, ExpansionTable.from_pair(pair)
        self._replay = folder / "replay.sqlite"
        self._target = engine.target.model.name
        before, self._vocabulary = self._vocabulary, pair.target.fingerprint[:16]
        self._versions = folder / "adapters" / self._vocabulary
        self._versions.mkdir(parents=True, exist_ok=True)
        newest = max(self._versions.glob("*.gguf"), default=None)
        if before != self._vocabulary:
            if newest is not None:
                weights, _ = read_adapter(newest, self._model.path)
                self._model.load_weights({name: torch.from_numpy(matrix) for name, matrix in weights.items()})
            self._optimizer = make_optimizer(self._model, self.settings.learning_rate)
        if newest is None and before is not None:
            newest = self._write()
        return newest

    def answered(self, prompt: Prompt, tokens: Sequence[Token], finished: Finished) -> Path | None:
        """Keep the answer; every `interval` answers to this vocabulary train. Returns the newest adapter."""
        with ReplayStore(self._replay, self.settings.replay_mb) as replay:
            replay.add(self._record(prompt, tokens))
            mine = [o for o, answer in sorted(replay.answers.items()) if answer.vocabulary == self._vocabulary]
            if len(mine) % self.settings.interval == 0:
                new, old = mine[-self.settings.interval :], mine[: -self.settings.interval]
                again = self._rng.choice(old, min(len(old), len(new)), replace=False).tolist() if old else []
                self._train([w for ordinal in (*new, *again) for w in self._windows(replay, ordinal)])
        return max(self._versions.glob("*.gguf"), default=None)

    def _windows(self, replay: ReplayStore, ordinal: int) -> list[Window]:
        return windows(replay.get(ordinal), self._table)

    def _train(self, parts: list[Window]) -> None:
        settings = self.settings
        for _ in train(
            self._model, parts, settings.loss, settings.learning_rate, self._seed, PASSES, optimizer=self._optimizer
        ):
            pass
        self._write()

    def _write(self) -> Path:
        before = sorted(self._versions.glob("*.gguf"))
        path = self._versions / f"{int(before[-1].stem) + 1 if before else 1:06}.gguf"
        weights = {name: matrix.numpy() for name, matrix in self._model.weights().items()}
        partial = path.with_suffix(".partial")
        write_adapter(partial, weights, self._model.path, self._model.rank, self._model.rank)
        partial.replace(path)
        for old in before[:-1]:  # nobody goes back here; the last one may still be in use
            old.unlink()
        return path

    def _record(self, prompt: Prompt, tokens: Sequence[Token]) -> Record:
        """The answer in the drafter's pieces, spelled by the expansion table."""
        drafter, translator = self._engine.drafter, self._engine.translator
        messages = list(prompt.messages)
        space = bool(tokens) and ends_without_space(drafter.template.render(messages))
        counts, ids, logprobs, rest = gather_candidates([token.candidates for token in tokens])

        def first(token: int) -> tuple[int, ...]:
            data = self._pair.target.pieces[token]
            if not data:
                return tuple(self._pair.expansions[token])
            try:
                return tuple(translator.first_drafter_ids(data))
            except ValueError:
                return ()

        spelled = [tuple(self._pair.expansions[token.id]) for token in tokens]
        if space:
            spelled[0] = first(tokens[0].id)
        return Record(
            chat=prompt.id,
            target=self._target,
            vocabulary=self._vocabulary,
            prompt=np.array(prompt_ids(drafter.template, drafter.model.vocabulary, messages, []), np.int32),
            targets=np.array([token.id for token in tokens], np.int32),
            pieces=np.array([piece for pieces in spelled for piece in pieces], np.int32),
            spans=np.array([len(pieces) for pieces in spelled], np.int32),
            counts=counts,
            ids=ids,
            logprobs=logprobs,
            rest=rest,
            first=tuple(first(int(token)) for token in ids[: counts[0]]) if space else (),
            leading_space=space,
            task=prompt.task,
        )
