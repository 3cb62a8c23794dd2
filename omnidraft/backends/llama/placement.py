"""Which layers of a model lie on which device, as llama.cpp is told. Knows nothing of how that was decided.

llama.cpp gives the first layers to this machine's processor and the rest to the devices in their order. The last step,
from the hidden state to the logits, belongs to the last device: a graphics card keeps it. Over a network it is computed
here, so that a row crosses it as some thousand numbers and not as one for every token of the vocabulary.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import llama_cpp

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
        self._progress = llama_cpp.llama_progress_callback(lambda _share, _data: True)
        kept = [_Override(_OUTPUT, output_in)] if output_in is not None else []
        self._overrides = (_Override * (len(kept) + 1))(*kept, _Override(None, None))

    def told_of_progress(self, tell: Callable[[float], bool]) -> None:
        """`tell` hears after every tensor which share of them is in place; False ends the loading."""
        self._progress = llama_cpp.llama_progress_callback(lambda share, _data: tell(share))

    def apply(self, parameters: llama_cpp.llama_model_params) -> None:
        """Write it into `parameters`, which point into this object from now on."""
        parameters.devices = ctypes.cast(self._devices, ctypes.c_void_p)
        parameters.tensor_split = ctypes.cast(self._shares, ctypes.POINTER(ctypes.c_float))
        parameters.tensor_buft_overrides = ctypes.cast(self._overrides, ctypes.c_void_p)
        parameters.progress_callback = self._progress
        parameters.n_gpu_layers = self.layers + 1 if self.layers else 0
