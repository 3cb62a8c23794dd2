"""A GGUF file seen through llama.cpp's own functions: ids of a text, logits of ids. For tests only."""

import ctypes
from pathlib import Path
from types import TracebackType

import llama_cpp
import numpy as np


class LlamaFile:
    """Use as a context manager; logits need `context=True`."""

    def __init__(self, path: Path, context: bool = True, n_ctx: int = 256) -> None:
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = not context
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, f"llama.cpp refuses {path}"
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.context = None
        if context:
            settings = llama_cpp.llama_context_default_params()
            settings.n_ctx = settings.n_batch = settings.n_ubatch = n_ctx
            settings.n_threads = settings.n_threads_batch = 1
            self.context = llama_cpp.llama_init_from_model(self.model, settings)

    def __enter__(self) -> "LlamaFile":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.context:
            llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def ids(self, text: str) -> list[int]:
        """Without BOS; control tokens in the text are recognised."""
        data = text.encode()
        room = len(data) + 8
        out = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), out, room, False, True)
        assert count >= 0
        return list(out[:count])

    def template(self) -> str:
        return llama_cpp.llama_model_chat_template(self.model, None).decode()

    def logits(self, ids: list[int]) -> np.ndarray:
        """(len(ids), vocabulary size) float32, in one pass from an empty context."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = 1
        assert llama_cpp.llama_decode(self.context, batch) == 0
        size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        flat = llama_cpp.llama_get_logits(self.context)
        rows = np.ctypeslib.as_array(ctypes.cast(flat, ctypes.POINTER(ctypes.c_float)), (len(ids), size)).copy()
        llama_cpp.llama_batch_free(batch)
        return rows

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """The next `count` ids, each the argmax."""
        text = list(ids)
        for _ in range(count):
            text.append(int(self.logits(text)[-1].argmax()))
        return text[len(ids) :]
