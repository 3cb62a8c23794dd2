"""Targets in Hugging Face folders, run by transformers on the processor, a CUDA GPU or Apple's.

`HfTarget` keeps `tokens` and the KV cache equal at all times, as `LlamaTarget` does. How a folder becomes a model on a
device is load.py's matter.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from omnidraft.backends.base import N_BATCH, Aborted
from omnidraft.backends.gguf.file import ModelInfo, context_length
from omnidraft.backends.hf.folder import read_folder, state_layers
from omnidraft.backends.hf.load import CuttableCache, choose_device, choose_dtype, load
from omnidraft.backends.llama.rewind import Rewinder
from omnidraft.backends.llama.sizes import give_back
from omnidraft.errors import ModelError, first_line
from omnidraft.processes.threads import ThreadChoice, physical_cores, release_helpers
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json

_ONE_WIDTH = 8  # rows of every pass of a round where all of them shall compute the same bits
_CUT_TOLERANCE = 0.05  # of the logits' spread: rounding moves them less, a wrong state more


class HfTarget:
    """A `LanguageModel` on transformers.

    name, n_ctx (tokens), n_batch (ids per pass), widest (rows of a round's pass), device ("cpu", "cuda:0", "mps"),
    dtype ("float32", ...); notices: sentences about settings that could not be followed.
    """

    can_rewind = True
    cannot_rewind_reason: str | None = None

    def __init__(self, info: ModelInfo, settings: ModelSettings, vocabulary: Vocabulary) -> None:
        self.info = info
        self.name = info.name
        self.vocabulary = vocabulary
        self.tokens: list[int] = []
        self.n_batch = N_BATCH
        self.n_ctx, self.notices = context_length(info, settings)
        self.device = choose_device(settings.device)
        self.dtype = choose_dtype(info, self.device, settings.dtype, self.n_ctx)
        if settings.kv_type != "f16":
            self.notices.append(
                f"A {settings.kv_type} cache exists only for GGUF files; this one is kept as the model computes."
            )
        self._lock = threading.Lock()
        self._abort = threading.Event()
        most = settings.threads or physical_cores()
        states = state_layers(info.path)
        self._padded = not states
        self.widest = _ONE_WIDTH if self._padded else 1
        self._threads = ThreadChoice(most, least=most if self._padded else settings.threads or 1)
        self._model = load(info, self.device, self.dtype, most, self.n_ctx)
        self._inputs = self._model.get_input_embeddings().weight.shape[0]
        self._cache: Any = CuttableCache(self.n_ctx + _ONE_WIDTH * self._padded, states)
        self._rewinder = Rewinder(self._cache, "replay" if states else "cut")
        try:
            self._watch_layers()
            self._check_cut()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | Path, settings: ModelSettings, *, vocabulary: Vocabulary | None = None) -> HfTarget:
        """Load the folder at `path`; ModelError in one sentence if it cannot serve."""
        info = read_folder(path)
        return cls(info, settings, vocabulary or read_tokenizer_json(info.path / "tokenizer.json"))

    def _watch_layers(self) -> None:
        """Let `abort` be noticed between layers: a pass over a long prompt takes seconds."""

        def look(*_ignored: object) -> None:
            if self._abort.is_set():
                raise Aborted

        inner = getattr(self._model.base_model, "language_model", self._model.base_model)
        layers = getattr(inner, "layers", None)
        for layer in layers if layers is not None else ():
            layer.register_forward_pre_hook(look)

    def _check_cut(self) -> None:
        """That taking tokens back really works, on a few tokens: any other cache than ours would show here."""
        ids = np.flatnonzero(self.vocabulary.ordinary)[:4].tolist()
        whole = self.extend(ids, 2).copy()
        self.rewind(2)
        again = self.extend(ids[2:], 2)
        seen = np.isfinite(whole)
        if np.abs(again[seen] - whole[seen]).max() > _CUT_TOLERANCE * max(float(whole[seen].std()), 1e-3):
            raise ModelError(
                f"{self.info.path} cannot take back tokens it has read, which targets in folders must; "
                "use a GGUF of this model."
            )
        self.rewind(0)

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        """See `LanguageModel.extend`. On ModelError or Aborted, whole passes already done stay in `tokens`."""
        with self._lock:
            self._live()
            self._abort.clear()
            if not 0 <= rows <= len(ids):
                raise ValueError(f"{rows} rows asked of {len(ids)} ids")
            self._check_ids(ids)
            parts = []
            for start in range(0, len(ids), self.n_batch):
                step = ids[start : start + self.n_batch]
                wanted = max(0, start + len(step) - max(start, len(ids) - rows))
                part = self._read(step, wanted)
                if wanted:
                    parts.append(part)
            if not parts:
                return np.empty((0, self.vocabulary.size), np.float32)
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_ids(self, ids: Sequence[int]) -> None:
        if len(self.tokens) + len(ids) > self.n_ctx:
            raise ModelError(
                f"The context of {self.name} is full: {len(self.tokens)} tokens plus {len(ids)} more exceed "
                f"{self.n_ctx}; shorten the conversation or raise n_ctx."
            )
        if any(not 0 <= id < self._inputs for id in ids):  # a GPU would stop the whole process at one
            raise ModelError(f"{self.name} has no token with one of these ids; it has {self._inputs}.")

    def _read(self, ids: Sequence[int], wanted: int) -> np.ndarray:
        """One pass; the last `wanted` rows of logits. The cache is as before if it fails."""
        held = len(self.tokens)
        self._rewinder.before_pass(held, wanted)
        more = _ONE_WIDTH - len(ids) if self._padded and len(ids) < _ONE_WIDTH else 0
        if torch.get_num_threads() != self._threads.count:
            torch.set_num_threads(self._threads.count)
        begun = perf_counter()
        try:
            with torch.inference_mode():
                given = torch.tensor([[*ids, *[ids[-1]] * more]], device=self.device)
                if wanted:
                    kept = wanted if not more else _ONE_WIDTH
                    output = self._model(given, past_key_values=self._cache, use_cache=True, logits_to_keep=kept)
                    logits = output.logits[0, kept - more - wanted : kept - more].float().cpu().numpy()
                else:
                    self._model.base_model(given, past_key_values=self._cache, use_cache=True)
                    getattr(torch, self.device.partition(":")[0]).synchronize()  # logits would wait by themselves
                    logits = np.empty((0, self.vocabulary.size), np.float32)
        except RuntimeError as error:
            self._take_back(held)
            raise ModelError(f"{self.name} could not compute: {first_line(error)}.") from error
        except BaseException:
            self._take_back(held)
            raise
        if more:
            self._cache.cut(held + len(ids))
        self._threads.passed(len(ids), perf_counter() - begun)
        self.tokens.extend(ids)
        return self._fitted(logits)

    def _take_back(self, length: int) -> list[int]:
        """Keep the first `length` tokens, or fewer; those in between."""
        left = self._rewinder.back_to(length, len(self.tokens))
        lost = self.tokens[left:length]
        del self.tokens[left:]
        return lost

    @property
    def threads(self) -> tuple[int, int] | None:
        """Processor threads of the next pass, and the most it may have; None if a GPU computes."""
        return (self._threads.count, self._threads.most) if self.device == "cpu" else None

    def _fitted(self, logits: np.ndarray) -> np.ndarray:
        """One column per row of the vocabulary; tokens the model has no logit for can never be drawn."""
        missing = self.vocabulary.size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self.vocabulary.size]
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=-np.inf)

    def rewind(self, length: int) -> None:
        """Cut the cache back to `length` tokens; where layers carry a state, some may have to be read again."""
        with self._lock:
            self._live()
            if not 0 <= length <= len(self.tokens):
                raise ValueError(f"cannot rewind {len(self.tokens)} tokens to {length}")
            again = self._take_back(length) if length < len(self.tokens) else []
            for start in range(0, len(again), self.n_batch):
                self._read(again[start : start + self.n_batch], 0)
            if length == 0:
                release_helpers()

    def abort(self) -> None:
        """Interrupt an `extend` that is running now, between two layers; one that starts later is not affected."""
        self._abort.set()

    def close(self) -> None:
        """Interrupt, then free the model. Harmless when repeated."""
        self.abort()
        with self._lock:
            if self._model is None:
                return
            self._model = self._cache = None
            self.tokens.clear()
            gc.collect()
            give_back()
            if self.device.startswith("cuda"):
                torch.cuda.empty_cache()

    def _live(self) -> None:
        if self._model is None:
            raise ModelError(f"{self.name} is closed.")

    def __enter__(self):
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
