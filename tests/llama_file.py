"""A GGUF file seen through llama.cpp's own functions: ids of a text, logits of ids, with or without an adapter."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from omnidraft.backends.llama.runtime import begin_call

logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)


class LlamaFile:
    """Use as a context manager; logits need `context=True`. One thread: idle ones of a busy machine would spin."""

    def __init__(
        self,
        path: Path,
        context: bool = True,
        adapter: Path | None = None,
        exact_cache: bool = False,
        n_ctx: int = 1024,
    ) -> None:
        """exact_cache keeps keys and values in F32; by default, and in flash attention always, they are F16."""
        begin_call()
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only, parameters.n_gpu_layers = not context, 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, f"llama.cpp refuses {path}"
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.context = self._opened(exact_cache, n_ctx) if context else None
        self.adapter = None
        if adapter is not None:
            self.adapter = llama_cpp.llama_adapter_lora_init(self.model, str(adapter).encode())
            assert self.adapter, f"llama.cpp refuses {adapter}"
            one = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(self.adapter)
            assert llama_cpp.llama_set_adapters_lora(self.context, one, 1, (ctypes.c_float * 1)(1.0)) == 0

    def _opened(self, exact_cache: bool, n_ctx: int) -> ctypes.c_void_p:
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = n_ctx
        settings.n_threads = settings.n_threads_batch = 1
        if exact_cache:
            settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
            settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        return llama_cpp.llama_init_from_model(self.model, settings)

    def __enter__(self) -> LlamaFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self.context:
            llama_cpp.llama_free(self.context)
        if self.adapter is not None:
            llama_cpp.llama_adapter_lora_free(self.adapter)
        llama_cpp.llama_model_free(self.model)

    def ids(self, text: str, special: bool = True) -> list[int]:
        """Without BOS; special: whether control tokens in the text are recognised."""
        data = text.encode()
        out = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), out, len(out), False, special)
        assert count >= 0
        return list(out[:count])

    def template(self) -> str:
        return llama_cpp.llama_model_chat_template(self.model, None).decode()

    def logits(self, ids: Sequence[int], start: int = 0) -> np.ndarray:
        """Logits behind every id of one pass, (len(ids), size) float32; position 0 starts anew."""
        if start == 0:
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for row, token in enumerate(ids):
            batch.token[row], batch.pos[row] = token, start + row
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, 0, True
        assert llama_cpp.llama_decode(self.context, batch) == 0
        llama_cpp.llama_batch_free(batch)
        flat = llama_cpp.llama_get_logits(self.context)
        return np.ctypeslib.as_array(flat, (len(ids), self.size)).copy()

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """The `count` ids that follow `prompt`, each the argmax, token by token."""
        row, text = self.logits(prompt)[-1], []
        for position in range(len(prompt), len(prompt) + count):
            text.append(int(row.argmax()))
            row = self.logits(text[-1:], position)[0]
        return text


def llama_logits(path: Path, ids: Sequence[int], adapter: Path | None = None) -> np.ndarray:
    """Logits behind every id, (len(ids), size) float32."""
    with LlamaFile(path, adapter=adapter) as file:
        return file.logits(ids)
