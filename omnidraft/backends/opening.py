"""Opens a target whatever form it comes in: a GGUF file by llama.cpp, a Hugging Face folder by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.backends.llama_cpp import LlamaTarget
from omnidraft.config import ModelSettings

if TYPE_CHECKING:
    from omnidraft.backends.hf_target import HfTarget


def open_target(path: str | Path, settings: ModelSettings) -> LlamaTarget | HfTarget:
    """The target at `path`, a file or a folder; ModelError in one sentence if it cannot serve."""
    if Path(path).is_dir():
        from omnidraft.backends.hf_target import HfTarget

        return HfTarget.open(path, settings)
    return LlamaTarget.open(path, settings)
