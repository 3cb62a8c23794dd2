"""What ggml computes with on this machine: processors and graphics cards, and how much of their memory is free.

Knows no models.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import llama_cpp

from omnidraft.backends.llama.runtime import begin_call, ggml

CPU, GPU, INTEGRATED = 0, 1, 2  # ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Device:
    """Something that computes. handle: ggml's pointer; free, total: bytes."""

    handle: int
    name: str
    description: str
    type: int
    free: int
    total: int


def local_devices() -> list[Device]:
    """What this machine computes with, RPC devices left out."""
    begin_call()
    handles = [ggml("backend_dev_get")(i) for i in range(ggml("backend_dev_count")())]
    registries = [ggml("backend_dev_backend_reg")(handle) for handle in handles]
    names = map(ggml("backend_reg_name"), registries)
    return [describe(handle) for handle, name in zip(handles, names, strict=True) if name != b"RPC"]


def local_cards() -> list[Device]:
    """The graphics cards of this machine; those that share the processor's memory only where there are no others."""
    devices = local_devices()
    own = [device for device in devices if device.type == GPU]
    return own or [device for device in devices if device.type == INTEGRATED]


@cache
def gpu_offload() -> bool:
    """Whether llama.cpp can use a graphics card here. Its own answer is yes of every build that knows workers."""
    return bool(local_cards())


def describe(handle: int) -> Device:
    """The device behind ggml's pointer, its memory as it is now."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml("backend_dev_memory")(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        handle,
        ggml("backend_dev_name")(handle).decode(),
        ggml("backend_dev_description")(handle).decode(errors="replace"),
        ggml("backend_dev_type")(handle),
        free.value,
        total.value,
    )


# Which layers of a model lie on which device, as llama.cpp is told. Knows nothing of how that was decided. llama.cpp
# gives the first layers to this machine's processor and the rest to the devices in their order. The last step, from
# the hidden state to the logits, belongs to the last device: a graphics card keeps it. Over a network it is computed
# here, so that a row crosses it as some thousand numbers and not as one for every token of the vocabulary.


_OUTPUT = rb"^(output|token_embd)\.weight$"


class _Override(ctypes.Structure):
    _fields_ = (("pattern", ctypes.c_char_p), ("buffers", ctypes.c_void_p))


class Placement:
    """devices: ggml's pointers; layers: how many each takes; output_in: ggml's buffer type of this machine's memory
    where the last step is to be computed here."""

    def __init__(self, devices: Sequence[int], layers: Sequence[int], output_in: int | None = None) -> None:
        used = [(device, count) for device, count in zip(devices, layers, strict=True) if count]
        self.layers = sum(count for _, count in used)
        self._devices = (ctypes.c_void_p * (len(used) + 1))(*(device for device, _ in used), None)
        shares = [float(count) for _, count in used]
        if shares:
            shares[-1] += 1.0  # the output counts as a layer
        length = max(llama_cpp.llama_max_devices(), len(shares) + 1)
        self._shares = (ctypes.c_float * length)(*shares)
        kept = [_Override(_OUTPUT, output_in)] if output_in is not None else []
        self._overrides = (_Override * (len(kept) + 1))(*kept, _Override(None, None))

    def apply(self, parameters: llama_cpp.llama_model_params) -> None:
        """Write it into `parameters`, which point into this object from now on."""
        parameters.devices = ctypes.cast(self._devices, ctypes.c_void_p)
        parameters.tensor_split = ctypes.cast(self._shares, ctypes.POINTER(ctypes.c_float))
        parameters.tensor_buft_overrides = ctypes.cast(self._overrides, ctypes.c_void_p)
        parameters.n_gpu_layers = self.layers + 1 if self.layers else 0
