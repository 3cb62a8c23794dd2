"""Targets in Hugging Face folders, run by transformers on the processor, a CUDA GPU or Apple's.

`HfTarget` keeps `tokens` and the KV cache equal at all times, as `LlamaTarget` does. Nothing comes from the network and
no program code comes from the folder. torch and transformers are imported when the first folder is opened, not before.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.backends.convert import folder_vocabulary
from omnidraft.backends.cores import physical_cores
from omnidraft.backends.gguf_file import ModelInfo
from omnidraft.backends.hf_folder import read_folder
from omnidraft.backends.memory import available_bytes
from omnidraft.config import ModelSettings
from omnidraft.errors import ModelError
from omnidraft.vocab import Vocabulary

_MARGIN = 1.1  # of the weights: what loading and computing take besides them
_CUT_TOLERANCE = 0.05  # of the logits' spread: rounding moves them less, a wrong state more


class HfTarget:
    """A `LanguageModel` on transformers.

    name, n_ctx (tokens), n_batch (ids per pass), device ("cpu", "cuda", "mps"), dtype ("float32", ...); notices:
    sentences about settings that could not be followed.
    """

    can_rewind = True
    cannot_rewind_reason: str | None = None

    def __init__(self, info: ModelInfo, settings: ModelSettings, vocabulary: Vocabulary, device: str, dtype: str):
        self.info = info
        self.name = info.name
        self.vocabulary = vocabulary
        self.tokens: list[int] = []
        self.notices: list[str] = []
        self.n_batch = settings.n_batch
        self.n_ctx = self._context_length(settings)
        self.device, self.dtype = device, dtype
        if settings.kv_type != "f16":
            self.notices.append(f"A {settings.kv_type} cache exists only for GGUF files; this one is kept in {dtype}.")
        self._lock = threading.Lock()
        self._abort = threading.Event()
        self._model, self._cache = _load(info, device, dtype, settings.threads or physical_cores(), self.n_ctx)
        try:
            self._rows = self._model.get_output_embeddings().weight.shape[0]
            self._inputs = self._model.get_input_embeddings().weight.shape[0]
            self._watch_layers()
            self._check_cut()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | Path,
        settings: ModelSettings,
        *,
        vocabulary: Vocabulary | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> HfTarget:
        """Load the folder at `path`; ModelError in one sentence if it cannot serve.

        device and dtype are chosen by the machine unless given: a GPU if there is one, there bfloat16 (else float16);
        on the processor float32, or as stored if only that fits into memory.
        """
        info = read_folder(path)
        vocabulary = vocabulary or folder_vocabulary(info.path)
        device = device or _best_device()
        return cls(info, settings, vocabulary, device, dtype or _best_dtype(info, device))

    def _context_length(self, settings: ModelSettings) -> int:
        trained = self.info.n_ctx_train
        wanted = settings.n_ctx or trained or 4096
        if trained and wanted > trained:
            if settings.n_ctx != ModelSettings().n_ctx:  # the default means "at most"
                self.notices.append(
                    f"{self.name} was trained for {trained} tokens of context, so {wanted} became {trained}."
                )
            return trained
        return wanted

    def _watch_layers(self) -> None:
        """Let `abort` be noticed between layers: a pass over a long prompt takes seconds."""

        def look(*_ignored: object) -> None:
            if self._abort.is_set():
                raise Aborted

        layers = getattr(self._model.base_model, "layers", None)
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
        import torch

        held = len(self.tokens)
        try:
            with torch.inference_mode():
                given = torch.tensor([list(ids)], device=self.device)
                if wanted:
                    output = self._model(given, past_key_values=self._cache, use_cache=True, logits_to_keep=wanted)
                    logits = output.logits[0, -wanted:].float().cpu().numpy()
                else:
                    self._model.base_model(given, past_key_values=self._cache, use_cache=True)
                    logits = np.empty((0, self._rows), np.float32)
        except Aborted:
            self._cache.cut(held)
            raise
        except RuntimeError as error:
            self._cache.cut(held)
            raise ModelError(f"{self.name} could not compute: {_first_line(error)}.") from error
        except BaseException:
            self._cache.cut(held)
            raise
        self.tokens.extend(ids)
        return self._fitted(logits)

    def _fitted(self, logits: np.ndarray) -> np.ndarray:
        """One column per row of the vocabulary; tokens the model has no logit for can never be drawn."""
        missing = self.vocabulary.size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self.vocabulary.size]
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=-np.inf)

    def rewind(self, length: int) -> None:
        """Cut the cache back to `length` tokens."""
        with self._lock:
            self._live()
            if not 0 <= length <= len(self.tokens):
                raise ValueError(f"cannot rewind {len(self.tokens)} tokens to {length}")
            self._cache.cut(length)
            del self.tokens[length:]

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
            if self.device == "cuda":
                import torch

                torch.cuda.empty_cache()

    def _live(self) -> None:
        if self._model is None:
            raise ModelError(f"{self.name} is closed.")

    def __enter__(self):
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _best_device() -> str:
    torch = _import_torch()
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _best_dtype(info: ModelInfo, device: str) -> str:
    if device == "cuda":
        return "bfloat16" if _import_torch().cuda.is_bf16_supported() else "float16"
    if device == "mps":
        return "float16"
    free = available_bytes()
    stored = {"BF16": "bfloat16", "F16": "bfloat16"}.get(info.quantization)  # the processor computes float16 slowly
    fits = free is None or _MARGIN * 4 * info.parameters < free
    return "float32" if fits or stored is None else stored


def _check_room(info: ModelInfo, device: str, dtype: str, n_ctx: int) -> None:
    """ModelError with the numbers if the weights and a full context do not fit."""
    each = 4 if dtype == "float32" else 2
    weights = _MARGIN * info.parameters * each or info.file_size
    head = info.width // info.heads if info.heads else 0
    cache = 2 * n_ctx * info.layers * info.kv_heads * head * each
    needed = weights + cache
    if device == "cuda":
        torch = _import_torch()
        free, where = torch.cuda.mem_get_info()[0], "of the GPU's memory"
        several = torch.cuda.device_count() > 1
    else:
        free, where, several = available_bytes(), "of memory", False
    if free is not None and needed > free:
        raise ModelError(
            f"{info.name} needs {needed / 1e9:.1f} GB in {dtype} (weights {weights / 1e9:.1f} GB, a context of {n_ctx} "
            f"tokens {cache / 1e9:.1f} GB), but {free / 1e9:.1f} GB {where} are free"
            + (", and a model spread over several GPUs is not supported here" if several else "")
            + "; use a quantized GGUF of this model, a smaller model or a shorter context."
        )


def _load(info: ModelInfo, device: str, dtype: str, threads: int, n_ctx: int) -> tuple[Any, Any]:
    """(model, empty cache) on `device`; ModelError in one sentence."""
    torch = _import_torch()
    import transformers

    from omnidraft.backends.hf_cache import CuttableCache

    torch.set_num_threads(threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    _check_architecture(info, transformers)
    _check_room(info, device, dtype, n_ctx)
    try:
        model, outcome = transformers.AutoModelForCausalLM.from_pretrained(
            str(info.path), dtype=getattr(torch, dtype), local_files_only=True, trust_remote_code=False,
            use_safetensors=info.parts[0].suffix == ".safetensors", weights_only=True, output_loading_info=True,
        )  # fmt: skip
        missing = sorted(outcome["missing_keys"])
        if missing:  # transformers would go on with random numbers in their place
            rest = f"{missing[0]} and {len(missing) - 1} more"
            raise ModelError(f"{info.path} lacks weights ({rest}); download it again.")
        return model.eval().to(device), CuttableCache()
    except ModelError:
        raise
    except Exception as error:  # the libraries raise anything for a faulty file
        raise ModelError(f"{info.path} could not be loaded: {_first_line(error)}.") from error


def _check_architecture(info: ModelInfo, transformers: Any) -> None:
    mapping = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    try:
        config = transformers.AutoConfig.from_pretrained(str(info.path), local_files_only=True, trust_remote_code=False)
        model_class = mapping[type(config)]
    except Exception:  # KeyError, ValueError, or whatever a configuration's own checks raise
        raise ModelError(
            f"{info.path} has the architecture '{info.architecture}', which the installed transformers cannot run "
            "without program code from the folder, and such code is never run; use a GGUF of this model."
        ) from None
    if getattr(model_class, "_is_stateful", False):
        raise ModelError(
            f"{info.path} is a '{info.architecture}' model, whose state cannot take tokens back in a Hugging Face "
            "folder; use a GGUF of this model."
        )


def _import_torch() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the hub's library is imported: a folder needs no network
    try:
        import torch
    except ImportError:
        raise ModelError("Hugging Face folders need torch and transformers; install requirements.txt.") from None
    return torch


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
