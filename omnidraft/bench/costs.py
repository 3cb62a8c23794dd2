"""The cost model of a pair on this machine, measured as the app measures it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from omnidraft.app.assistant import Assistant
from omnidraft.bench import regimes
from omnidraft.bench.opened import engine_of
from omnidraft.decoding.cost import CostModel
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import DataHome


def measure(
    home: DataHome, regime: str, target: Path, drafter: Path, settings: ModelSettings
) -> tuple[CostModel, float]:
    """(costs, seconds the measuring itself took)."""
    assistant = Assistant(home, ephemeral=True)
    try:
        files = regimes.models(home, regime, target, drafter)
        assistant.load(*files, settings, CacheSettings(enabled=False))
        start = perf_counter()
        return engine_of(assistant).measured(), perf_counter() - start
    finally:
        assistant.close()
