"""How many tokens of context a model is given: what its settings ask for, as far as it was trained for that."""

from __future__ import annotations

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.settings.config import ModelSettings


def context_length(info: ModelInfo, settings: ModelSettings) -> tuple[int, list[str]]:
    """(tokens, a sentence where they are fewer than somebody asked for)."""
    trained = info.n_ctx_train
    wanted = settings.n_ctx or trained or 4096
    if not trained or wanted <= trained:
        return wanted, []
    if settings.n_ctx == ModelSettings().n_ctx:  # the default means "at most"
        return trained, []
    return trained, [f"{info.name} was trained for {trained} tokens of context, so {wanted} became {trained}."]
