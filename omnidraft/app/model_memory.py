"""How much memory a model will take, for pages: by the same formulas that refuse a load, and no model is opened."""

from __future__ import annotations

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.hf.estimate import folder_estimate
from omnidraft.backends.llama.estimate import header_estimate
from omnidraft.backends.projectors import projector_beside
from omnidraft.settings.config import ModelSettings


def context_of(model: ModelInfo, settings: ModelSettings) -> int:
    """The context length it would be loaded with."""
    trained = model.n_ctx_train or settings.n_ctx or 4096
    return min(settings.n_ctx, trained) if settings.n_ctx else trained


def estimate(model: ModelInfo, settings: ModelSettings) -> int:
    """Bytes of weights, projector, cache and buffers with the chosen context; Hugging Face folders as on the
    processor."""
    n_ctx = context_of(model, settings)
    if model.path.is_dir():
        dtype = "float32" if settings.dtype == "auto" else settings.dtype
        return folder_estimate(model, "cpu", dtype, n_ctx, settings.n_batch).total
    projector = projector_beside(model.path)
    return header_estimate(model, settings, n_ctx).total + (projector.stat().st_size if projector else 0)
