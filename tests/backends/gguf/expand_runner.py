"""The least of llama.cpp that the expansion tests need: tokens in, logits out, with or without an adapter."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)


class Runner:
    """One model with one thread: idle threads of a busy machine would spin."""

    def __init__(self, path: Path, adapter: Path | None = None, exact_cache: bool = False) -> None:
        """`exact_cache` keeps keys and values in F32; by default, and in flash attention always, they are F16."""
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        assert self.model, f"llama.cpp refused {path}"
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = 512
        settings.n_threads = settings.n_threads_batch = 1
        if exact_cache:
            settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
            settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.adapter = None
        if adapter is not None:
            self.adapter = llama_cpp.llama_adapter_lora_init(self.model, str(adapter).encode())
            assert self.adapter, f"llama.cpp refused {adapter}"
            one = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(self.adapter)
            assert llama_cpp.llama_set_adapters_lora(self.context, one, 1, (ctypes.c_float * 1)(1.0)) == 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        llama_cpp.llama_free(self.context)
        if self.adapter is not None:
            llama_cpp.llama_adapter_lora_free(self.adapter)
        llama_cpp.llama_model_free(self.model)

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), True, special)
        assert count >= 0
        return list(ids[:count])

    def attribute(self, token: int) -> int:
        return llama_cpp.llama_vocab_get_attr(self.vocab, token)

    def logits(self, ids: Sequence[int], start: int = 0) -> np.ndarray:
        """Logits behind every id of one pass, shape (len(ids), size); position 0 starts anew."""
        if start == 0:
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for row, token in enumerate(ids):
            batch.token[row], batch.pos[row] = token, start + row
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, 0, True
        assert llama_cpp.llama_decode(self.context, batch) == 0
        llama_cpp.llama_batch_free(batch)
        rows = [llama_cpp.llama_get_logits_ith(self.context, row) for row in range(len(ids))]
        return np.stack([np.ctypeslib.as_array(row, (self.size,)).copy() for row in rows])

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """The `count` ids that follow `prompt` at temperature 0, token by token."""
        row, text = self.logits(prompt)[-1], []
        for position in range(len(prompt), len(prompt) + count):
            text.append(int(row.argmax()))
            row = self.logits(text[-1:], position)[0]
        return text

    def rounding(self, prompt: list[int], text: list[int]) -> float:
        """How far this model's logits behind `text` move between one wide pass and passes of one row."""
        wide = self.logits(prompt + text)[len(prompt) - 1 : -1]
        rows = [self.logits(prompt)[-1]]
        rows += [self.logits([token], len(prompt) + i)[0] for i, token in enumerate(text[:-1])]
        return difference(np.stack(rows), wide)


def difference(small: np.ndarray, large: np.ndarray) -> float:
    """Largest |logit difference| over the small vocabulary, after removing what shifts a whole row alike."""
    gap = large[:, : small.shape[1]] - small
    return float(np.abs(gap - gap.mean(axis=1, keepdims=True)).max())


def same_text(small: Runner, large: Runner, prompt: list[int], count: int, tolerance: float) -> bool:
    """Whether both write the same text; a first difference within twice `tolerance` of a tie is forgiven."""
    ours, theirs = small.greedy(prompt, count), large.greedy(prompt, count)
    if ours == theirs:
        return True
    at = next(i for i in range(count) if ours[i] != theirs[i])
    row = small.logits(prompt + ours[:at])[-1]
    return bool(row[ours[at]] - row[theirs[at]] < 2 * tolerance)
