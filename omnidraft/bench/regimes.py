"""The conditions speed is measured under: a bundled pair as it is, or enlarged to realistic cost."""

from __future__ import annotations

import hashlib
from pathlib import Path

from omnidraft.backends.expand import SHAPES, expanded_model, random_model
from omnidraft.errors import SettingsError
from omnidraft.paths import DataHome

REGIMES = ("bundled", "0.5b-F32", "0.5b-F16", "0.5b-Q8_0", "0.5b-Q4_0", "0.5b-Q4_K_M", "0.5b-folder")
FOLDER = "folder"  # a Hugging Face folder in float32, whose passes are nearly flat
DRAFTER_SHAPE, DRAFTER_DTYPE = "68m", "Q8_0"  # the paper's drafter, as people would run it


def models(
    home: DataHome, regime: str, target: Path, drafter: Path, drafter_shape: str = DRAFTER_SHAPE
) -> tuple[Path, Path]:
    """(target, drafter) files for a regime, built in the cache folder where they are missing."""
    if regime == "bundled":
        return target, drafter
    shape, dash, dtype = regime.partition("-")
    if not dash or shape not in SHAPES:
        raise SettingsError(f"There is no regime {regime}; known are {', '.join(REGIMES)}.")
    return (
        folder(home, regime, target) if dtype == FOLDER else expanded_model(home.cache, target, SHAPES[shape], dtype),
        expanded_model(home.cache, drafter, SHAPES[drafter_shape], DRAFTER_DTYPE),
    )


def untaught(home: DataHome, drafter: Path) -> Path:
    """A drafter like `drafter` with random weights: the worst a drafter can be."""
    path = home.cache / f"{drafter.stem}-random.gguf"
    return path if path.exists() else random_model(path, drafter)


def folder(home: DataHome, regime: str, target: Path) -> Path:
    """The target as a float32 Hugging Face folder at the regime's shape, built in the cache where it is missing."""
    if regime == "bundled":
        return _exported(home, target)
    shape = regime.partition("-")[0]
    if shape not in SHAPES:
        raise SettingsError(f"There is no shape {shape}; known are {', '.join(SHAPES)}.")
    return _exported(home, expanded_model(home.cache, target, SHAPES[shape], "F32"))


def drafter_folder(home: DataHome, regime: str, drafter: Path) -> Path:
    """Likewise the drafter, at the drafter's shape."""
    if regime == "bundled":
        return _exported(home, drafter)
    return _exported(home, expanded_model(home.cache, drafter, SHAPES[DRAFTER_SHAPE], "F32"))


def _exported(home: DataHome, gguf: Path) -> Path:
    with open(gguf, "rb") as file:
        path = home.cache / "folders" / f"{gguf.stem}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    if not path.exists():
        from omnidraft.backends.hf_export import export_folder  # brings torch

        export_folder(gguf, path)
    return path
