"""A GGUF file seen through llama-cpp-python's own class, with or without an adapter."""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import llama_cpp
import numpy as np

from omnidraft.backends.llama.runtime import begin_call

logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)


def llama_file(path: Path, adapter: Path | None = None) -> closing[llama_cpp.Llama]:
    """One thread: idle ones of a busy machine would spin."""
    begin_call()
    lora = None if adapter is None else str(adapter)
    return closing(llama_cpp.Llama(
        str(path), n_ctx=512, n_threads=1, n_threads_batch=1, logits_all=True, lora_path=lora, verbose=False
    ))  # fmt: skip


def llama_logits(path: Path, ids: Sequence[int], adapter: Path | None = None) -> np.ndarray:
    """Logits behind every id, (len(ids), size) float32."""
    with llama_file(path, adapter) as file:
        file.eval(ids)
        return file.scores[: len(ids)].copy()
