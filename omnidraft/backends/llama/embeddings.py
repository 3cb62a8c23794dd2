"""Embeddings of texts: the mean over a text's tokens of the model's last hidden state, in a context of their own.

The context shares the weights with the one that answers and nothing else, is as long as the longest text, and lives for
one request. llama.cpp pools what one step reads; steps are kept short, for every token of them reserves a row of
logits, and their means are weighed by their lengths. Knows nothing of vocabularies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import llama_cpp
import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.runtime import AbortFlag, begin_call, failure_reason
from omnidraft.errors import ModelError

STEP = 64  # tokens of a step


class LlamaEmbedder:
    """For a `with` block. model: a loaded model's pointer; length: tokens of the longest text; abort: interrupts."""

    def __init__(self, model: int, length: int, threads: int, abort: AbortFlag) -> None:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = length
        parameters.n_batch = parameters.n_ubatch = parameters.n_outputs_max = STEP
        parameters.n_seq_max = 1
        parameters.embeddings = True
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_MEAN
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        begin_call()
        self._context = llama_cpp.llama_init_from_model(model, parameters)
        if not self._context:
            raise ModelError(f"There is no room for a context of {length} tokens for embeddings ({failure_reason()}).")
        llama_cpp.llama_set_abort_callback(self._context, abort.callback, abort.data)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._size = llama_cpp.llama_model_n_embd(model)
        self._batch = llama_cpp.llama_batch_init(STEP, 0, 1)

    def mean(self, ids: Sequence[int]) -> np.ndarray:
        """(n_embd,) float64 of at least one token. Aborted if interrupted."""
        llama_cpp.llama_memory_clear(self._memory, True)
        total = np.zeros(self._size)
        for start in range(0, len(ids), STEP):
            part = ids[start : start + STEP]
            total += len(part) * self._step(part, start)
        return total / len(ids)

    def _step(self, ids: Sequence[int], position: int) -> np.ndarray:
        batch = self._batch
        batch.n_tokens = len(ids)
        for row, token in enumerate(ids):
            batch.token[row], batch.pos[row], batch.logits[row] = token, position + row, 1
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, 0
        code = llama_cpp.llama_decode(self._context, batch)
        if code == 2:
            raise Aborted
        found = llama_cpp.llama_get_embeddings_seq(self._context, 0) if code == 0 else None
        if not found:
            raise ModelError(f"The model could not compute embeddings: {failure_reason()} (code {code}).")
        return np.ctypeslib.as_array(found, (self._size,)).astype(np.float64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
