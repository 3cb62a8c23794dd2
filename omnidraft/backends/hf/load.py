"""Opens the model of a Hugging Face folder with transformers: device, number format, and the sentence where it cannot.

And the KV cache that such a model writes to. Nothing comes from the network and no program code comes from the folder.
torch and transformers are imported when the first folder is opened, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache, DynamicLayer, LinearAttentionLayer

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.hf.folder import check_room, folder_estimate, state_layers
from omnidraft.backends.llama.sizes import available_bytes, give_back
from omnidraft.errors import ModelError, first_line


def choose_device(wanted: str) -> str:
    """ "cpu", "cuda:0" (the GPU with the most free memory) or "mps"; ModelError if `wanted` is not there."""
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if wanted == "auto":
        wanted = "cuda" if has_cuda else "mps" if has_mps else "cpu"
    if (wanted == "cuda" and not has_cuda) or (wanted == "mps" and not has_mps):
        raise ModelError(
            f"The installed torch finds no {wanted.upper()} device on this machine; set device to auto or cpu, or "
            "install a torch built for your GPU."
        )
    if wanted == "cuda":
        wanted = f"cuda:{max(range(torch.cuda.device_count()), key=lambda index: torch.cuda.mem_get_info(index)[0])}"
    return wanted


def choose_dtype(info: ModelInfo, device: str, wanted: str, n_ctx: int) -> str:
    """`wanted`, or for "auto": on a GPU half precision, on the processor float32, or bfloat16 if only that fits.

    float32 on the processor, because there half precision makes near-ties out of close decisions: the same text with
    and without a drafter is then less of a promise.
    """
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    if device == "mps":
        return "float16"
    free = available_bytes()
    fits = free is None or folder_estimate(info, device, "float32", n_ctx).total < free
    return "float32" if fits or info.quantization not in ("BF16", "F16") else "bfloat16"


def load(info: ModelInfo, device: str, dtype: str, threads: int, n_ctx: int) -> Any:
    """A transformers model on `device`, ready for passes; ModelError in one sentence if it cannot serve."""
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    loader = _loader(info, transformers)
    free = torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else available_bytes()
    check_room(info, device, dtype, n_ctx, free)
    try:
        return _prepared(_read(info, dtype, loader), device)
    except ModelError:
        raise
    except Exception as error:  # the libraries raise anything for a faulty file
        raise ModelError(f"{info.path} could not be loaded: {first_line(error)}.") from error


def _read(info: ModelInfo, dtype: str, loader: Any) -> Any:
    model, outcome = loader.from_pretrained(
        str(info.path), dtype=getattr(torch, dtype), local_files_only=True, trust_remote_code=False,
        use_safetensors=True, output_loading_info=True,
    )  # fmt: skip
    missing = sorted(outcome["missing_keys"])
    if missing:  # transformers would go on with random numbers in their place
        rest = f"{missing[0]} and {len(missing) - 1} more"
        raise ModelError(f"{info.path} lacks weights ({rest}); download it again.")
    return model.eval()


def _prepared(model: Any, device: str) -> Any:
    model = model.to(device)
    if device == "cpu":
        pack_linears(model)
        for parameter in model.parameters():  # what is left are views into the mapped file, which they keep mapped
            parameter.data = parameter.data.clone()
        give_back()
    return model


def _loader(info: ModelInfo, transformers: Any) -> Any:
    """What loads this architecture: as a text model, or as one that reads pictures too where there is no other."""
    known = transformers.models.auto.modeling_auto
    try:
        config = transformers.AutoConfig.from_pretrained(str(info.path), local_files_only=True, trust_remote_code=False)
        as_text = type(config) in known.MODEL_FOR_CAUSAL_LM_MAPPING
        mapping = known.MODEL_FOR_CAUSAL_LM_MAPPING if as_text else known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        model_class = mapping[type(config)]
    except Exception:  # KeyError, ValueError, or whatever a configuration's own checks raise
        raise ModelError(
            f"{info.path} has the architecture '{info.architecture[:100]}', which the installed transformers cannot "
            "run without program code from the folder, and such code is never run; use a GGUF of this model."
        ) from None
    if getattr(model_class, "_is_stateful", False) and not state_layers(info.path):
        raise ModelError(
            f"{info.path} is a '{info.architecture}' model, whose state cannot take tokens back in a Hugging Face "
            "folder; use a GGUF of this model."
        )
    return transformers.AutoModelForCausalLM if as_text else transformers.AutoModelForImageTextToText


# Linear layers for passes of a few rows, `pack_linears`. torch multiplies a single row by one kernel and a few rows by
# another, which takes two to three times as long in float32. oneDNN's kernel for reordered weights is faster than both,
# and four rows cost it no more than one, so that verifying a draft costs about as much as one token.


_ROWS = 4  # one to three rows take longer than four do
_SMALL = 1 << 20  # bytes of weights that stay in the processor's own memory, where plain layers do as well


class PackedLinear(nn.Module):
    """x (..., n, inputs) -> (..., n, outputs), as the `nn.Linear` it is made of computes it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        plain = linear.weight.detach().contiguous()
        self.register_buffer("weight", torch.ops.mkldnn._reorder_linear_weight(plain, _ROWS), persistent=False)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[-2]
        if rows < _ROWS:
            x = F.pad(x, (0, 0, 0, _ROWS - rows))
        out = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out[..., :rows, :]


def pack_linears(model: nn.Module) -> bool:
    """Reorder the weights of all larger `nn.Linear`s of a model on the processor; False if this build of torch cannot.

    A tied output layer gets a copy of its own, for the embedding needs the weights in their plain order.
    """
    first = next((module for module in model.modules() if type(module) is nn.Linear), None)
    if first is None or not _packable(first):
        return False
    made: dict[nn.Linear, PackedLinear] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child not in made and type(child) is nn.Linear and child.weight.nbytes >= _SMALL:
                made[child] = PackedLinear(child)
                child.weight = None  # given up one layer at a time
            if child in made:  # perhaps held in a second place
                setattr(parent, name, made[child])
    return True


def _packable(linear: nn.Linear) -> bool:
    """Whether this build of torch and this processor have the kernel for the layer's number format."""
    has = {
        torch.float32: lambda: True,
        torch.bfloat16: lambda: torch.ops.mkldnn._is_mkldnn_bf16_supported(),
        torch.float16: lambda: torch.ops.mkldnn._is_mkldnn_fp16_supported(),
    }.get(linear.weight.dtype, lambda: False)
    try:
        if not (torch.backends.mkldnn.is_available() and linear.weight.device.type == "cpu" and has()):
            return False
        with torch.no_grad():
            x = linear.weight[:1].unsqueeze(0)
            expected, packed = linear(x), PackedLinear(linear)(x)
            return bool((packed - expected).abs().max() <= 0.05 * expected.abs().max())
    except (RuntimeError, AttributeError):  # NotImplementedError is a RuntimeError
        return False


# A KV cache for transformers' models that appends in place and is cut by moving a number. The library's own growing
# cache copies all keys and values at every step; this one writes into buffers that double when full and hands out
# views. All layers keep every token, also those with a sliding window: their attention mask already hides what lies
# outside, and only so can any number of tokens be taken back. Layers that carry a state on have it copied out and put
# back (`Rewinder`, "replay").


_FIRST = 256  # tokens a buffer is made for at first


class CuttableLayer(DynamicLayer):
    """Keys and values of one layer, (batch, heads, tokens, head width), as views of buffers for up to `most` tokens."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._length, self._most = 0, most

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        first = min(_FIRST, self._most)
        self._keys = _buffer(key_states, first)
        self._values = _buffer(value_states, first)
        self.is_initialized = True
        self._show()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: object, **_options: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new states; all of them, old and new."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self._length + key_states.shape[-2]
        if end > self._keys.shape[-2]:
            self._keys = _grown(self._keys, end, self._length, self._most)
            self._values = _grown(self._values, end, self._length, self._most)
        self._keys[..., self._length : end, :] = key_states
        self._values[..., self._length : end, :] = value_states
        self._length = end
        self._show()
        return self.keys, self.values

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens; harmless if there are fewer."""
        if self.is_initialized and length < self._length:
            self._length = length
            self._show()

    def get_seq_length(self) -> int:
        return self._length

    def _show(self) -> None:
        self.keys = self._keys[..., : self._length, :]
        self.values = self._values[..., : self._length, :]


State = list[tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]]


class CuttableCache(Cache):
    """One `CuttableLayer` for `most` tokens per layer of the model, made as the model asks for them.

    states: for each layer whether it carries a state on instead, which is not cut but put back; [] where none does.
    """

    rollback = 0

    def __init__(self, most: int, states: Sequence[bool] = ()) -> None:
        if states:
            super().__init__(layers=[LinearAttentionLayer() if state else CuttableLayer(most) for state in states])
        else:
            super().__init__(layer_class_to_replicate=partial(CuttableLayer, most))
        self.has_state = any(states)

    def cut(self, length: int) -> bool:
        """Keep the first `length` tokens of every layer with keys and values."""
        for layer in self.layers:
            if isinstance(layer, CuttableLayer):
                layer.cut(length)
        return True

    @torch.inference_mode()
    def clear(self) -> None:
        """As before the first token."""
        self.cut(0)
        for layer in self._with_state():
            layer.reset()

    @torch.inference_mode()
    def save_state(self) -> State:
        """Copies of what the layers with a state carry on."""
        return [(_copies(layer.conv_states), _copies(layer.recurrent_states)) for layer in self._with_state()]

    @torch.inference_mode()
    def restore_state(self, state: State, length: int) -> bool:
        """Put back what `save_state` gave when there were `length` tokens."""
        self.cut(length)
        for layer, (convolved, recurrent) in zip(self._with_state(), state, strict=True):
            if not length:
                layer.reset()
                continue
            for kept, held in ((convolved, layer.conv_states), (recurrent, layer.recurrent_states)):
                for index, tensor in kept.items():
                    held[index].copy_(tensor)
        return True

    def _with_state(self) -> list[LinearAttentionLayer]:
        return [layer for layer in self.layers if isinstance(layer, LinearAttentionLayer)]


def _copies(states: dict[int, torch.Tensor | None]) -> dict[int, torch.Tensor]:
    return {index: tensor.clone() for index, tensor in states.items() if tensor is not None}


def _buffer(like: torch.Tensor, tokens: int) -> torch.Tensor:
    return like.new_empty((*like.shape[:-2], max(tokens, like.shape[-2]), like.shape[-1]))


def _grown(buffer: torch.Tensor, needed: int, held: int, most: int) -> torch.Tensor:
    larger = _buffer(buffer, max(needed, min(2 * buffer.shape[-2], most)))
    larger[..., :held, :] = buffer[..., :held, :]
    return larger
