"""The conditions speed is measured under: a bundled pair as it is, or enlarged to realistic cost."""

from __future__ import annotations

from pathlib import Path

from omnidraft.backends.gguf.expand.cache import expanded_adapter, expanded_model
from omnidraft.backends.gguf.expand.shapes import SHAPES, Shape
from omnidraft.bench.plans import REGIMES
from omnidraft.bench.runner import digest
from omnidraft.errors import SettingsError
from omnidraft.learning.adapters.merge import can_merge, write_merged
from omnidraft.storage.paths import DataHome

FOLDER = "folder"  # a Hugging Face folder in float32, whose passes are nearly flat
DRAFTER_DTYPE = "Q8_0"
_DRAFTER_SHAPE = "68m"  # the paper's drafter, as people would run it
OWN = "own"  # as a drafter's shape: the drafter as it is
_SMALL = ("bundled", "0.1b")  # an enlarged drafter would cost as much as these; theirs stays as it is


def models(
    home: DataHome, regime: str, target: Path, drafter: Path, drafter_shape: str | None = None
) -> tuple[Path, Path]:
    """(target, drafter) files for a regime, built in the cache folder where they are missing. drafter_shape: OWN or one
    of SHAPES in place of the regime's."""
    if regime == "bundled":
        return target, drafter
    shape, dash, dtype = regime.partition("-")
    if not dash or shape not in SHAPES:
        raise SettingsError(f"There is no regime {regime}; known are {', '.join(REGIMES)}.")
    own = shape_of_drafter(regime, drafter_shape)
    return (
        folder(home, regime, target) if dtype == FOLDER else expanded_model(home.cache, target, SHAPES[shape], dtype),
        expanded_model(home.cache, drafter, own, DRAFTER_DTYPE) if own else drafter,
    )


def shape_of_drafter(regime: str, asked: str | None = None) -> Shape | None:
    """What the drafter is enlarged to in a regime, or to the shape asked for; None where it stays as it is, as both
    models do in "bundled"."""
    if asked and asked not in (OWN, *SHAPES):
        raise SettingsError(f"A drafter's shape is one of {', '.join((OWN, *SHAPES))}, not {asked[:40]}.")
    usual = OWN if regime.partition("-")[0] in _SMALL else _DRAFTER_SHAPE
    return None if regime == "bundled" else SHAPES.get(asked or usual)


def sized(home: DataHome, drafter: Path, shape: str | None) -> Path:
    """The drafter's file at one of SHAPES; OWN or nothing: as it is."""
    own = shape_of_drafter(OWN, shape)
    return expanded_model(home.cache, drafter, own, DRAFTER_DTYPE) if shape and own else drafter


def taught(
    home: DataHome, regime: str, adapter: Path, drafter: Path, drafter_shape: str | None = None
) -> tuple[Path, Path | None]:
    """(file, adapter) to open for what becomes in a regime of a drafter that learned `adapter`. As in the app this is
    one file with the adapter added in, whose steps cost what the bare drafter's do, unless no such copy is kept."""
    shape = shape_of_drafter(regime, drafter_shape)
    if shape:
        adapter = expanded_adapter(home.cache, adapter, drafter, shape)
        drafter = expanded_model(home.cache, drafter, shape, DRAFTER_DTYPE)
    if not can_merge(drafter):
        return drafter, adapter
    merged = home.cache / "taught" / f"{drafter.stem}-{digest(adapter)}.gguf"
    if not merged.exists():
        merged.parent.mkdir(parents=True, exist_ok=True)
        write_merged(drafter, adapter, merged)
    return merged, None


def folder(home: DataHome, regime: str, target: Path) -> Path:
    """The target as a float32 Hugging Face folder at the regime's shape, built in the cache where it is missing."""
    if regime == "bundled":
        return _exported(home, target)
    shape = regime.partition("-")[0]
    if shape not in SHAPES:
        raise SettingsError(f"There is no shape {shape}; known are {', '.join(SHAPES)}.")
    return _exported(home, expanded_model(home.cache, target, SHAPES[shape], "F32"))


def drafter_folder(home: DataHome, regime: str, drafter: Path, drafter_shape: str | None = None) -> Path:
    """Likewise the drafter, at the drafter's shape."""
    shape = shape_of_drafter(regime, drafter_shape)
    return _exported(home, expanded_model(home.cache, drafter, shape, "F32") if shape else drafter)


def _exported(home: DataHome, gguf: Path) -> Path:
    path = home.cache / "folders" / f"{gguf.stem}-{digest(gguf)}"
    if not path.exists():
        from omnidraft.bench.transformers_models import export_folder  # brings torch

        export_folder(gguf, path)
    return path
