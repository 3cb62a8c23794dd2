"""What ggml computes with on this machine: processors and graphics cards, and how much of their memory is free.

llama-cpp-python has no names for ggml's functions on devices. Knows no models.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from omnidraft.backends.llama.runtime import begin_call, declare, load_library

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
    ggml = device_functions()
    handles = [ggml.ggml_backend_dev_get(i) for i in range(ggml.ggml_backend_dev_count())]
    return [describe(handle) for handle in handles if _registry_name(handle) != "RPC"]


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
    ggml = device_functions()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        handle,
        ggml.ggml_backend_dev_name(handle).decode(),
        ggml.ggml_backend_dev_description(handle).decode(errors="replace"),
        ggml.ggml_backend_dev_type(handle),
        free.value,
        total.value,
    )


def processor_buffers() -> int:
    """ggml's buffer type for memory of this machine, as a pointer."""
    return device_functions().ggml_backend_cpu_buffer_type()


def _registry_name(handle: int) -> str:
    ggml = device_functions()
    return ggml.ggml_backend_reg_name(ggml.ggml_backend_dev_backend_reg(handle)).decode()


@cache
def device_functions() -> ctypes.CDLL:
    """ggml's functions on devices, of which two libraries hold a part each."""
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    sizes = ctypes.POINTER(size)
    library, base, processor = load_library("ggml"), load_library("ggml-base"), load_library("ggml-cpu")
    declare(library, "ggml_backend_dev_count", size)
    declare(library, "ggml_backend_dev_get", pointer, size)
    declare(library, "ggml_backend_register", None, pointer)
    for name, result, arguments in (
        ("ggml_backend_dev_name", text, (pointer,)),
        ("ggml_backend_dev_description", text, (pointer,)),
        ("ggml_backend_dev_type", ctypes.c_int, (pointer,)),
        ("ggml_backend_dev_memory", None, (pointer, sizes, sizes)),
        ("ggml_backend_dev_backend_reg", pointer, (pointer,)),
        ("ggml_backend_reg_name", text, (pointer,)),
        ("ggml_backend_reg_dev_count", size, (pointer,)),
        ("ggml_backend_reg_dev_get", pointer, (pointer, size)),
    ):
        declare(base, name, result, *arguments)
        setattr(library, name, getattr(base, name))
    found = base if hasattr(base, "ggml_backend_cpu_buffer_type") else processor
    declare(found, "ggml_backend_cpu_buffer_type", pointer)
    setattr(library, "ggml_backend_cpu_buffer_type", found.ggml_backend_cpu_buffer_type)  # noqa: B010 - as above
    return library
