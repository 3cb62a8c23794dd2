"""What the n-gram cache is worth: acceptance at draft length 4 without it, learning from nothing, and seeded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.bench.opened import engine_of
from omnidraft.decoding.events import Finished
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import TASKS, load_prompts
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome

DRAFT = DraftSettings(mode="fixed", length=4)
CACHES = {
    "direct map": CacheSettings(enabled=False),
    "cache, empty": CacheSettings(seed=False),
    "cache, seeded": CacheSettings(),
}


@dataclass(frozen=True, slots=True)
class CacheRow:
    """Sums over a task's prompts (task "all": over all tasks), answered one after another with one cache."""

    target: str
    task: str
    cache: str
    proposed: int
    accepted: int
    acceptance_rate: float
    tokens_per_pass: float


def measure(
    home: DataHome, target: Path, drafter: Path, prompts: int, max_tokens: int, temperature: float, threads: int = 0
) -> Iterator[CacheRow]:
    """A row per task and kind of cache, then one over all tasks; nothing is kept on disk."""
    for kind, settings in CACHES.items():
        assistant = Assistant(home, ephemeral=True)
        try:
            assistant.load(target, drafter, ModelSettings(threads=threads), settings)
            rows, name = [], engine_of(assistant).target.model.name
            for task in TASKS:
                rows.append(_task(assistant, task, prompts, max_tokens, temperature))
                yield _row(name, task, kind, rows[-1])
            yield _row(name, "all", kind, [sum(column) for column in zip(*rows, strict=True)])
        finally:
            assistant.close()


def _task(assistant: Assistant, task: str, prompts: int, max_tokens: int, temperature: float) -> list[int]:
    """[proposed, accepted, tokens, target passes] over the task's first prompts."""
    sums = [0, 0, 0, 0]
    for number, prompt in enumerate(load_prompts(task, limit=prompts)):
        sampling = SamplingSettings.unfiltered(temperature=temperature, seed=number, max_tokens=max_tokens)
        for event in assistant.answer(AnswerRequest(prompt.messages, sampling, DRAFT)):
            if isinstance(event, Finished):
                s = event.statistics
                found = (s.proposed, s.accepted, s.tokens, s.target_passes)
                sums = [a + b for a, b in zip(sums, found, strict=True)]
    return sums


def _row(target: str, task: str, kind: str, sums: list[int]) -> CacheRow:
    proposed, accepted, tokens, passes = sums
    return CacheRow(target, task, kind, proposed, accepted, accepted / max(proposed, 1), tokens / max(passes, 1))
