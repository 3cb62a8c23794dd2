"""The conditions speed is measured under: a bundled pair as it is, or enlarged to realistic cost."""

from __future__ import annotations

from pathlib import Path

from omnidraft.backends.expand import SHAPES, expanded_model, random_model
from omnidraft.errors import SettingsError
from omnidraft.paths import DataHome

REGIMES = ("bundled", "0.5b-F32", "0.5b-F16", "0.5b-Q8_0", "0.5b-Q4_0")
DRAFTER_SHAPE, DRAFTER_DTYPE = "68m", "Q8_0"  # the paper's drafter, as people would run it


def models(home: DataHome, regime: str, target: Path, drafter: Path) -> tuple[Path, Path]:
    """(target, drafter) files for a regime, built in the cache folder where they are missing."""
    if regime == "bundled":
        return target, drafter
    shape, dash, dtype = regime.partition("-")
    if not dash or shape not in SHAPES:
        raise SettingsError(f"There is no regime {regime}; known are {', '.join(REGIMES)}.")
    return (
        expanded_model(home.cache, target, SHAPES[shape], dtype),
        expanded_model(home.cache, drafter, SHAPES[DRAFTER_SHAPE], DRAFTER_DTYPE),
    )


def untaught(home: DataHome, drafter: Path) -> Path:
    """A drafter like `drafter` with random weights: the worst a drafter can be."""
    path = home.cache / f"{drafter.stem}-random.gguf"
    return path if path.exists() else random_model(path, drafter)
