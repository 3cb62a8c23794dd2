"""Quantizes a GGUF through llama.cpp, every matrix to the same type.

One type for all matrices, the embedding and the output layer included, so that a small model and its expansion are
quantized alike: llama.cpp's mixtures choose types by shape and layer number.
"""

from __future__ import annotations

import os
from pathlib import Path

import llama_cpp

from omnidraft.backends.gguf.expand.gguf_stream import replacing
from omnidraft.backends.llama.runtime import begin_call, failure_reason
from omnidraft.errors import ModelError

TYPES = {
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}
MIXED = "Q4_K_M"  # what most people download: some tensors in Q6_K
BUFFER = 1 << 28  # bytes of a tensor held at once: an embedding of 128,256 rows takes 1 GB and more in float32


def quantize_model(source: Path, out: Path, dtype: str) -> Path:
    """Write `source` (F32 or F16) as `dtype` (one of TYPES) to `out`; norms stay F32. ModelError if it fails."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = os.cpu_count() or 1
    options.ftype = TYPES[dtype]
    options.pure = dtype != MIXED
    options.max_buf_size = BUFFER
    with replacing(out) as temporary:
        begin_call()
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(temporary), options) != 0:
            raise ModelError(f"llama.cpp could not quantize {source} to {dtype}: {failure_reason()}.")
    return out
