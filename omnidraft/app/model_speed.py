"""How fast a model writes here without drafting: as it was measured, else by a measured one that is like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.app.speed_store import SpeedStore
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.gguf.header import read_header
from omnidraft.settings.config import ModelSettings

_LEAST = 64 << 20  # bytes: below, a pass is more than the reading of weights
_LIKE = 4.0  # times the size: beyond, what was measured says nothing


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second. like: the name of the model it is estimated by; empty where it was measured."""

    plain: float
    like: str = ""

    def __str__(self) -> str:
        return f"about {self.plain:,.{0 if self.plain >= 9.5 else 1}f} tokens/s{', estimated' if self.like else ''}"


def speeds(models: Sequence[ModelInfo], settings: ModelSettings, store: SpeedStore) -> dict[Path, Speed]:
    """What is known of each; a model of which nothing is known has no entry."""
    measured = store.plain(settings, [model.path for model in models])
    known = {path: Speed(plain) for path, plain in measured.items()}
    like = [model for model in models if model.path in measured]
    return known | dict(_estimates([m for m in models if m.path not in known], like, measured))


def _estimates(
    models: Sequence[ModelInfo], like: Sequence[ModelInfo], measured: dict[Path, float]
) -> Iterator[tuple[Path, Speed]]:
    """By bytes: a pass reads all weights, so models of one format take as long as they are large."""
    for model in models:
        near = min((one for one in like if _is_like(one, model)), key=lambda one: _ratio(one, model), default=None)
        if near is not None:
            yield model.path, Speed(measured[near.path] * near.file_size / model.file_size, near.name)


def _is_like(one: ModelInfo, other: ModelInfo) -> bool:
    alike = one.quantization == other.quantization and one.path.is_dir() == other.path.is_dir()
    large = min(one.file_size, other.file_size) >= _LEAST
    return alike and large and _ratio(one, other) <= _LIKE and _reads_all(one) and _reads_all(other)


def _ratio(one: ModelInfo, other: ModelInfo) -> float:
    return max(one.file_size, other.file_size) / min(one.file_size, other.file_size)


def _reads_all(model: ModelInfo) -> bool:
    """Whether a pass reads all weights: not where experts take turns."""
    return model.path.is_dir() or not any(key.endswith(".expert_count") for key in read_header(model.path).metadata)
