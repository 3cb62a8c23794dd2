"""Learning as the app learns, answer by answer, and its yardstick: distilling to convergence on the same answers.

`live` runs the app's own updates, `distil` sees all answers as often as it likes. Both keep every eighth answer out of
training. Neither runs the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.learning.adapters.gguf import write_adapter
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import HELD_OUT_AT, HELD_OUT_EVERY
from omnidraft.learning.training.batches import Window, windows
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.evaluate import estimate
from omnidraft.learning.training.steps import make_optimizer, train
from omnidraft.learning.training.stream import StreamLearner, StreamUpdate
from omnidraft.settings.config import LearningSettings

PATIENCE = 2  # passes without improvement before the rate falls, or the distillation ends
MOST_PASSES = 40


@dataclass(frozen=True)
class Distilled:
    """passes over the answers; seconds and cpu they took; held_out: the estimate it was stopped by."""

    passes: int
    seconds: float
    cpu: float
    held_out: float


def live(learner: StreamLearner, records: Sequence[Record]) -> Iterator[StreamUpdate]:
    """Updates after every few answers (the learner's interval) and after the last one."""
    for record in records:
        if (update := learner.add(record)) is not None:
            yield update
    if (update := learner.finish()) is not None:
        yield update


def distil(
    drafter: Path, records: Sequence[Record], table: ExpansionTable, loss: str, settings: LearningSettings, seed: int,
    adapter: Path, told: Callable[[int, float], None] = lambda _passes, _value: None,
) -> Distilled:  # fmt: skip
    """Train on all answers until held-out answers stop improving, at the rate and then at an eighth of it; write the
    best weights to `adapter`."""
    seconds, cpu = time.perf_counter(), time.process_time()
    cut = [windows(record, table) for record in records]
    held = [w for i, parts in enumerate(cut) for w in parts if i % HELD_OUT_EVERY == HELD_OUT_AT]
    taught = [w for i, parts in enumerate(cut) for w in parts if i % HELD_OUT_EVERY != HELD_OUT_AT]
    model = TorchDrafter(drafter, settings.rank, seed=seed)
    best, kept, passes = _value(model, held), model.weights(), 0
    for rate in (settings.learning_rate, settings.learning_rate / 8):
        model.load_weights(kept)
        optimizer, failed = make_optimizer(model, rate), 0
        while failed < PATIENCE and passes < MOST_PASSES:
            for _ in train(model, taught, loss, rate, seed + passes, optimizer=optimizer):
                pass
            passes += 1
            value = _value(model, held)
            failed = 0 if value > best else failed + 1
            if value > best:
                best, kept = value, model.weights()
            told(passes, value)
    write_adapter(adapter, {n: w.numpy() for n, w in kept.items()}, drafter, settings.rank, "f16")
    return Distilled(passes, time.perf_counter() - seconds, time.process_time() - cpu, best)


def _value(model: TorchDrafter, held: Sequence[Window]) -> float:
    """What the gate looks at: half greedy, half drawn."""
    found = estimate(model, held)
    return float(np.mean((found.greedy + found.overlap) / 2)) if found.tokens else 0.0
