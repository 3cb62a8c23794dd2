"""How long a person waits for the first token, with and without a drafter: `python -m omnidraft bench first-token`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from omnidraft.app.assistant import Assistant
from omnidraft.bench import regimes
from omnidraft.bench.opened import engine_of
from omnidraft.bench.speed import draft_settings
from omnidraft.decoding.events import Prefill, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import CacheSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome

METHODS = ("plain", "adaptive")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Seconds until the first token, from cold caches: medians over `repeats` answers to `prompt_tokens` of prompt."""

    target: str
    regime: str
    prompt_tokens: int
    repeats: int
    plain: float
    drafted: float
    ratio: float
    ratio_range: tuple[float, float]


def measure(
    home: DataHome, regime: str, target: Path, drafter: Path, prompt_tokens: int, repeats: int, threads: int
) -> Waiting:
    """Both ways in turn on one loaded pair; ratios are of neighbours."""
    assistant = Assistant(home, ephemeral=True)
    try:
        models = regimes.models(home, regime, target, drafter)
        assistant.load(*models, ModelSettings(threads=threads), CacheSettings())
        messages = _prompt(assistant, prompt_tokens)
        times: dict[str, list[float]] = {method: [] for method in METHODS}
        for turn in range(repeats + 1):
            for method in METHODS if turn % 2 else METHODS[::-1]:
                seconds, length = _first_token(assistant, messages, method)
                if turn:  # the first turn warms up
                    times[method].append(seconds)
    finally:
        assistant.close()
    ratios = sorted(b / a for a, b in zip(times["plain"], times["adaptive"], strict=True))
    return Waiting(
        target.stem, regime, length, repeats, median(times["plain"]), median(times["adaptive"]), median(ratios),
        (ratios[0], ratios[-1]),
    )  # fmt: skip


def _prompt(assistant: Assistant, tokens: int) -> list[dict[str, str]]:
    """One message of about `tokens` target tokens, from the bundled prompts."""
    vocabulary = engine_of(assistant).target.model.vocabulary
    text = " ".join(p.messages[-1]["content"] for task in ("qa", "dialogue") for p in load_prompts(task, split="test"))
    ids = vocabulary.encode(text)
    ids = (ids * (1 + tokens // len(ids)))[:tokens]
    return [{"role": "user", "content": vocabulary.decode(ids).decode(errors="ignore")}]


def _first_token(assistant: Assistant, messages: list[dict[str, str]], method: str) -> tuple[float, int]:
    """(seconds until the first token is there, tokens the prompt had)."""
    engine_of(assistant).forget()
    length = 0
    start = perf_counter()
    events = assistant.answer(
        AnswerRequest(messages, SamplingSettings(temperature=0.0, max_tokens=4), draft_settings(method))
    )
    for event in events:
        if isinstance(event, Prefill):
            length = event.total
        if isinstance(event, Token):
            break
    seconds = perf_counter() - start
    events.close()
    return seconds, length
