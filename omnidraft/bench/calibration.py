"""How honest the acceptance head's probabilities are: Brier score and reliability table, predicted before learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.app.assistant import Assistant
from omnidraft.bench.opened import engine_of
from omnidraft.decoding.acceptance import AcceptanceHead
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome

BINS = 10
# gamma 0.9 drafts on well past where it pays, so that unlikely proposals are seen too
DRAFT = DraftSettings(mode="gamma", gamma=0.9, max_length=8)


@dataclass(frozen=True, slots=True)
class Bin:
    """Proposals whose predicted probability lay between low and high."""

    low: float
    high: float
    count: int
    predicted: float
    accepted: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """brier: mean (predicted - accepted)^2; base: the same for always predicting the overall rate."""

    mode: str
    temperature: float
    proposals: int
    brier: float
    base: float
    bins: tuple[Bin, ...]


def measure(
    home: DataHome, target: Path, drafter: Path, tasks: Sequence[str], prompts: int, temperature: float, mode: str,
    threads: int = 0,
) -> Calibration:  # fmt: skip
    """Answer the tasks' prompts once, the head learning as it goes, and score what it said beforehand.

    mode: "joint" or "interleaved" training of the head.
    """
    assistant = Assistant(home, ephemeral=True)
    try:
        assistant.load(target, drafter, ModelSettings(threads=threads), CacheSettings())
        knowledge = Knowledge(CostModel({1: 1e-3}, 1e-4), head=AcceptanceHead(mode), journal=[])
        engine_of(assistant).memory = Memory({"greedy": knowledge, "sampled": knowledge})
        for task in tasks:
            for number, prompt in enumerate(load_prompts(task, limit=prompts)):
                sampling = SamplingSettings.unfiltered(temperature=temperature, seed=number, max_tokens=64)
                for _ in assistant.answer(AnswerRequest(prompt.messages, sampling, DRAFT)):
                    pass
    finally:
        assistant.close()
    return score(knowledge.journal or (), mode, temperature)


def score(journal: Sequence[tuple[float, bool]], mode: str, temperature: float) -> Calibration:
    predicted, accepted = (np.array(column, float) for column in zip(*journal, strict=True))
    place = np.minimum((predicted * BINS).astype(int), BINS - 1)
    bins = tuple(
        Bin(i / BINS, (i + 1) / BINS, int(here.sum()), float(predicted[here].mean()), float(accepted[here].mean()))
        for i in range(BINS)
        if (here := place == i).any()
    )
    brier = float(((predicted - accepted) ** 2).mean())
    return Calibration(mode, temperature, len(journal), brier, float(accepted.var()), bins)
