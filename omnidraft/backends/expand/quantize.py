"""Quantizes a GGUF through llama.cpp, every matrix to the same type.

One type for all matrices, the embedding and the output layer included, so that a small model and its expansion are
quantized alike: llama.cpp's mixtures choose types by shape and layer number.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llama_cpp

from omnidraft.backends.expand.gguf_stream import replacing
from omnidraft.errors import ModelError

TYPES = {  # our name -> (llama_ftype, ggml_type)
    "Q8_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, llama_cpp.GGML_TYPE_Q8_0),
    "Q4_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, llama_cpp.GGML_TYPE_Q4_0),
}
BUFFER = 1 << 28  # bytes of a tensor held at once: an embedding of 128,256 rows takes 1 GB and more in float32


@contextmanager
def _quiet() -> Iterator[None]:
    """llama.cpp prints a line per tensor; the wrapper's logger decides whether anyone sees it."""
    logger = logging.getLogger("llama-cpp-python")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def quantize_model(source: Path, out: Path, dtype: str, threads: int = 0) -> Path:
    """Write `source` (F32 or F16) as `dtype` ("Q8_0" or "Q4_0") to `out`; norms stay F32. ModelError if it fails."""
    file_type, tensor_type = TYPES[dtype]
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = threads or os.cpu_count() or 1
    options.ftype = file_type
    options.pure = True
    options.output_tensor_type = options.token_embedding_type = tensor_type
    options.quantize_output_tensor = True
    options.max_buf_size = BUFFER
    with replacing(out) as temporary, _quiet():
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(temporary), options) != 0:
            raise ModelError(f"llama.cpp could not quantize {source} to {dtype}.")
    return out
