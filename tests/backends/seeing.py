"""Tiny vision models on disk and pictures for them; tests that need them skip where the build cannot see.

Their projectors have random weights and are of the kinds that differ in how pictures are read. "llava": square
pictures, plain positions. "qwen2vl": any shape, positions of three axes. "gemma3": rows of a picture that look both
ways.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.llama.eyes import mtmd_library
from omnidraft.backends.pictures import Picture
from tests.backends.tiny_models import MODELS, WIDTH, Model, ones, weights, write

needs_eyes = pytest.mark.skipif(mtmd_library() is None, reason="this build of llama-cpp-python was made without mtmd")
INNER, PATCH, SIDE = 32, 8, 32  # width of the vision tower; pixels
TEXT_MODELS = {"llava": "llama", "qwen2vl": "qwen2vl", "gemma3": "gemma3"}


def _projector(kind: str, tensors: dict[str, np.ndarray], **more: object) -> Model:
    vision = {
        "embedding_length": INNER, "attention.head_count": 2, "feed_forward_length": 64, "block_count": 2,
        "projection_dim": WIDTH, "attention.layer_norm_epsilon": 1e-5, "image_size": SIDE, "patch_size": PATCH,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    }  # fmt: skip
    metadata = {"general.type": "mmproj", "clip.has_vision_encoder": True, "clip.projector_type": kind}
    metadata |= {"clip.use_gelu": True} | {f"clip.vision.{key}": value for key, value in (vision | more).items()}
    return "clip", metadata, tensors


def _tower(random: np.random.Generator) -> dict[str, np.ndarray]:
    tensors = {
        "v.patch_embd.weight": random.normal(0, 0.3, (INNER, 3, PATCH, PATCH)).astype(np.float32),
        "v.post_ln.weight": ones(INNER), "v.post_ln.bias": 0 * ones(INNER),
    }  # fmt: skip
    for layer in range(2):
        square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (INNER, INNER))
        for name, shape in (square | {"ffn_up": (64, INNER), "ffn_down": (INNER, 64)}).items():
            tensors[f"v.blk.{layer}.{name}.weight"] = weights(random, *shape)
            tensors[f"v.blk.{layer}.{name}.bias"] = 0 * ones(shape[0])
        for name in ("ln1", "ln2"):
            tensors[f"v.blk.{layer}.{name}.weight"] = ones(INNER)
            tensors[f"v.blk.{layer}.{name}.bias"] = 0 * ones(INNER)
    return tensors


def _places(random: np.random.Generator) -> dict[str, np.ndarray]:
    return {"v.position_embd.weight": random.normal(0, 0.3, ((SIDE // PATCH) ** 2, INNER)).astype(np.float32)}


def llava(seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    tensors = _tower(random) | _places(random)
    tensors |= {"mm.0.weight": weights(random, WIDTH, INNER), "mm.0.bias": 0 * ones(WIDTH)}
    tensors |= {"mm.2.weight": weights(random, WIDTH, WIDTH), "mm.2.bias": 0 * ones(WIDTH)}
    return _projector("mlp", tensors)


def qwen2vl(seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    tensors = _tower(random)
    tensors["v.patch_embd.weight.1"] = random.normal(0, 0.3, (INNER, 3, PATCH, PATCH)).astype(np.float32)
    tensors |= {"mm.0.weight": weights(random, 4 * INNER, 4 * INNER), "mm.0.bias": 0 * ones(4 * INNER)}
    tensors |= {"mm.2.weight": weights(random, WIDTH, 4 * INNER), "mm.2.bias": 0 * ones(WIDTH)}
    return _projector("qwen2vl_merger", tensors)


def gemma3(seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    tensors = _tower(random) | _places(random)
    tensors |= {"mm.input_projection.weight": weights(random, INNER, WIDTH), "mm.soft_emb_norm.weight": ones(INNER)}
    return _projector("gemma3", tensors, **{"projector.scale_factor": 2})


PROJECTORS: dict[str, Callable[[], Model]] = {"llava": llava, "qwen2vl": qwen2vl, "gemma3": gemma3}


def vision_model(folder: Path, kind: str, context: int = 512) -> tuple[Path, Path]:
    """(model, projector) beside each other in `folder`."""
    architecture, metadata, tensors = MODELS[TEXT_MODELS[kind]]()
    metadata[f"{architecture}.context_length"] = context
    model = write(folder / f"tiny-{kind}.gguf", architecture, metadata, tensors)
    return model, write(folder / f"mmproj-tiny-{kind}-f32.gguf", *PROJECTORS[kind]())


def noise(seed: int, width: int = 40, height: int = 24) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8).tobytes()
    return Picture(hashlib.sha256(pixels).hexdigest(), width, height, pixels)
