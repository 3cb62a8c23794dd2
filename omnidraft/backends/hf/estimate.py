"""How much memory a Hugging Face folder takes as a target, and whether that is there: `folder_estimate`, `check_room`.

Reckons from the folder's own numbers; neither the weights nor torch are touched.
"""

from __future__ import annotations

from math import prod

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.hf.folder import inner_config, read_config, tensor_headers
from omnidraft.backends.llama.estimate import Estimate, size
from omnidraft.errors import NoRoom

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 2}  # of what is computed with; int8 is about weights only
_STORED = {"F32": 4, "BF16": 2, "F16": 2}
_RUNTIME = 8_000_000  # what torch sets up for the first passes
_ROWS = 64  # of logits in one pass, at most


def folder_estimate(info: ModelInfo, device: str, dtype: str, n_ctx: int) -> Estimate:
    """Bytes that `info` takes with a full context of `n_ctx` tokens."""
    each = BYTES[dtype]
    head = _inner(info, "head_dim") or (info.width // info.heads if info.heads else 0)
    cache = 2 * n_ctx * info.layers * info.kv_heads * head * each
    batch = min(N_BATCH, n_ctx)
    inner = _inner(info, "intermediate_size", "n_inner") or 4 * info.width
    states = batch * each * (8 * info.width + 3 * inner)
    scores = batch * n_ctx * (4 + each)  # with the mask that hides what comes later
    shared = 2 * n_ctx * info.heads * head * each if info.kv_heads < info.heads else 0  # spread over all heads
    logits = min(batch, _ROWS) * info.vocabulary_size * (4 if each == 4 else 4 + each)
    return Estimate(_weights(info, device, dtype), cache, states + scores + shared + logits + _RUNTIME)


def check_room(info: ModelInfo, device: str, dtype: str, n_ctx: int, free: int | None) -> None:
    """NoRoom with the numbers and a way out if `info` does not fit into `free` bytes; None: nobody knows."""
    needed = folder_estimate(info, device, dtype, n_ctx)
    if free is None or needed.total <= free:
        return
    where = "memory" if device == "cpu" else "the GPU's memory"
    raise NoRoom(
        f"{info.name} needs {needed} in {dtype} with a context of {n_ctx} tokens, but {size(free)} of {where} are "
        f"free; {_suggestion(info, device, dtype, n_ctx, free)}."
    )


def _suggestion(info: ModelInfo, device: str, dtype: str, n_ctx: int, free: int) -> str:
    """The longest context that fits, else a smaller number format, else another file."""
    for shorter in (n_ctx // 2, n_ctx // 4, n_ctx // 8):
        if shorter >= 512 and folder_estimate(info, device, dtype, shorter).total <= free:
            return f"set the context length to {shorter} or less"
    order = ("float32", "bfloat16", "int8")
    for smaller in order[order.index(dtype) + 1 if dtype in order else 2 :]:
        if folder_estimate(info, device, smaller, n_ctx).total <= free:
            return f"set dtype to {smaller}"
    return "use a quantized GGUF of this model, a smaller model or a shorter context"


def _weights(info: ModelInfo, device: str, dtype: str) -> int:
    each = BYTES[dtype]
    output = info.vocabulary_size * info.width
    if not info.parameters:  # pytorch_model.bin does not say; its file is little more than the weights
        numbers = info.file_size // _STORED.get(info.quantization, 4)
        return each * numbers
    copied = output * each if info.tied and device == "cpu" else 0
    if dtype != "int8":
        return each * info.parameters + copied
    linear = sum(prod(shape) for name, shape in _matrices(info) if prod(shape) != output)
    return each * (info.parameters - linear) + linear + copied


def _inner(info: ModelInfo, *keys: str) -> int:
    config = inner_config(read_config(info.path))
    return next((config[key] for key in keys if isinstance(config.get(key), int)), 0)


def _matrices(info: ModelInfo) -> list[tuple[str, list[int]]]:
    return [(name, shape) for name, _, shape in tensor_headers(list(info.parts)) if len(shape) == 2]
