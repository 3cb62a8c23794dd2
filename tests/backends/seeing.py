"""Tiny vision models on disk and pictures for them; tests that need them skip where the build cannot see."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.llama.eyes import mtmd_library
from omnidraft.backends.pictures import Picture
from tests.backends.tiny_models import MODELS, write
from tests.backends.tiny_projectors import PROJECTORS, TEXT_MODELS

needs_eyes = pytest.mark.skipif(mtmd_library() is None, reason="this build of llama-cpp-python was made without mtmd")


def vision_model(folder: Path, kind: str, context: int = 512) -> tuple[Path, Path]:
    """(model, projector) beside each other in `folder`."""
    architecture, metadata, tensors = MODELS[TEXT_MODELS[kind]]()
    metadata[f"{architecture}.context_length"] = context
    model = write(folder / f"tiny-{kind}.gguf", architecture, metadata, tensors)
    return model, write(folder / f"mmproj-tiny-{kind}-f32.gguf", *PROJECTORS[kind]())


def noise(seed: int, width: int = 40, height: int = 24) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8).tobytes()
    return Picture(hashlib.sha256(pixels).hexdigest(), width, height, pixels)
