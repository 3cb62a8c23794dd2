"""What it takes to race at the cost of a larger model: its size, format, memory and waiting time, said beforehand.

The copy says the same as the small model (`models expand`) and costs what a model of the larger shape costs. The
drafter stays as it is. Float32 weights are read whole for every pass, so that a pass of five rows costs hardly more
than one of one row: as on a GPU or a phone, where a real model of this size would run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.gguf.expand.cache import expanded_model, expanded_path
from omnidraft.backends.gguf.expand.shapes import SHAPES
from omnidraft.backends.gguf.expand.source import LlamaFile
from omnidraft.errors import ModelError, StorageError
from omnidraft.format import seconds, short, size
from omnidraft.storage.paths import DataHome

DTYPE = "F32"
SMALLEST = "0.1b"  # a pass of five rows costs 1.3 of one row's on two cores; of the bundled models in F16 it is 2.2
_BYTES_PER_SECOND = 60e6  # written while building, on two cores; slower than what was measured
_SPARE = 1.15  # of the weights: context and working memory besides


@dataclass(frozen=True, slots=True)
class Cost:
    """built: the copy is there already; seconds: to build it, an estimate on the safe side."""

    parameters: int
    bytes: int
    memory: int
    built: bool
    seconds: float

    def sentence(self) -> str:
        wait = "It was built before." if self.built else f"Building it takes about {seconds(self.seconds)}."
        return (
            f"A copy of this model with {short(self.parameters)} parameters, {DTYPE} in GGUF: {size(self.bytes)} on "
            f"disk and about {size(self.memory)} of memory; it says the same, as slowly as a model of that size. {wait}"
        )


def parameters(shape: str, tied: bool) -> int:
    """Of the shape of that name; `tied`: its output layer is the embedding."""
    s = SHAPES[shape]
    attention = s.width * s.head_dim * (2 * s.heads + 2 * s.kv_heads)
    embedding = s.vocab * s.width * (1 if tied else 2)
    return embedding + s.layers * (attention + 3 * s.width * s.ffn + 2 * s.width) + s.width


def cost(home: DataHome, target: Path, shape: str = SMALLEST) -> Cost:
    """What a copy of `target` in the shape of that name takes. ModelError if it cannot have one."""
    if target.is_dir():
        raise ModelError(f"{target.name} cannot be enlarged: only small Llama models in GGUF can.")
    total, path = parameters(shape, LlamaFile(target).tied), expanded_path(home.cache, target, SHAPES[shape], DTYPE)
    built = path.exists()
    weights = path.stat().st_size if built else 4 * total
    return Cost(total, weights, int(weights * _SPARE), built, 0.0 if built else weights / _BYTES_PER_SECOND)


def build(home: DataHome, target: Path, progress: Callable[[float], None], shape: str = SMALLEST) -> Path:
    """The copy, built where it is missing; `progress` may raise to stop. StorageError if the disk is too full."""
    needed = cost(home, target, shape)
    if not needed.built and (free := shutil.disk_usage(home.cache).free) < needed.bytes * 1.05:
        raise StorageError(f"The copy takes {size(needed.bytes)}, but only {size(free)} are free on the disk.")
    return expanded_model(home.cache, target, SHAPES[shape], DTYPE, progress=progress)
