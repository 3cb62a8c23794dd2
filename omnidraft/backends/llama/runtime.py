"""What every use of the llama.cpp library shares: one start-up, reasons for failures, type sizes, the abort flag.

Nothing here holds a model.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache

import gguf
import llama_cpp

from omnidraft.backends.llama.kernels import library
from omnidraft.vocab import llama_vocab

_PROCESSOR = 0  # of ggml_backend_dev_type
_DONTNEED = 4  # of madvise


@cache
def _start_backend() -> None:
    """AMX is struck off ggml's list of what quantized matrices may be laid out for; other layouts stay on it.

    Its configuration lies on the stack, where compilers drop it unseen (GCC 12 does), and the first wider pass of a
    quantized model ends the program (llama.cpp's issue 20824). Which compiler built the library is not told.
    """
    llama_cpp.llama_backend_init()
    _keep([pointer for pointer in _processor_layouts() if ggml("backend_buft_name")(pointer) != b"AMX"])


def choose_layouts() -> bool:
    """Keep ours (kernels/) alone on that list; whether it is there."""
    ours = library.registered()
    if ours is not None:
        _keep([ours][: len(_processor_layouts())])
    return ours is not None and len(_processor_layouts()) > 0


def _keep(layouts: list[int]) -> None:
    listed = _processor_layouts()
    for place, pointer in enumerate(layouts + [0] * (len(listed) - len(layouts))):
        listed[place] = pointer


def _processor_layouts() -> ctypes.Array:
    """ggml's own list of buffer types for the processor's weights, not a copy."""
    registry = ggml("backend_dev_backend_reg")(ggml("backend_dev_by_type")(_PROCESSOR))
    address = ggml("backend_reg_get_proc_address")(registry, b"ggml_backend_dev_get_extra_bufts")
    if not address:
        return (ctypes.c_void_p * 0)()
    listed = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)(None)
    count = next(place for place in itertools.count() if not listed[place])
    return ctypes.cast(listed, ctypes.POINTER(ctypes.c_void_p * count)).contents


def begin_call() -> None:
    """Before a call that may fail: the library is up, and what it logs from here on explains the failure."""
    llama_vocab.begin()
    _start_backend()


def failure_reason() -> str:
    """What llama.cpp said went wrong since this thread's `begin_call`; telling it forgets it."""
    reason = llama_vocab.first_error()
    llama_vocab.begin()
    return reason or "llama.cpp gave no reason"


@cache
def supports_architecture(architecture: str) -> bool:
    """Whether this build of llama.cpp can run `architecture` as a main model.

    Asks the library itself with a file that holds nothing but the name: it must fail, the reason tells.
    """
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    with tempfile.TemporaryDirectory() as folder:
        probe = os.path.join(folder, "architecture.gguf")
        writer = gguf.GGUFWriter(probe, architecture)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        begin_call()
        model = llama_cpp.llama_model_load_from_file(os.fsencode(probe), parameters)
        if model:
            llama_cpp.llama_model_free(model)
            return True
    reason = failure_reason()
    return "unknown model architecture" not in reason and "cannot be used as main model" not in reason


_POINTER, _SIZE, _TEXT, _INT, _LONG = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64


class Memory(ctypes.Structure):
    """ggml_init_params: where descriptions of tensors lie, and whether their values do as well."""

    _fields_ = (("size", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


_FUNCTIONS: dict[str, tuple] = {  # what they return, and their arguments
    "type_size": (_SIZE, _INT),
    "blck_size": (ctypes.c_int64, _INT),
    "backend_buft_name": (_TEXT, _POINTER),
    "backend_cpu_buffer_type": (_POINTER,),
    "backend_register": (None, _POINTER),
    "backend_dev_count": (_SIZE,),
    "backend_dev_get": (_POINTER, _SIZE),
    "backend_dev_by_type": (_POINTER, _INT),
    "backend_dev_name": (_TEXT, _POINTER),
    "backend_dev_description": (_TEXT, _POINTER),
    "backend_dev_type": (_INT, _POINTER),
    "backend_dev_memory": (None, _POINTER, ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE)),
    "backend_dev_backend_reg": (_POINTER, _POINTER),
    "backend_reg_name": (_TEXT, _POINTER),
    "backend_reg_dev_count": (_SIZE, _POINTER),
    "backend_reg_dev_get": (_POINTER, _POINTER, _SIZE),
    "backend_reg_get_proc_address": (_POINTER, _POINTER, _TEXT),
    "init": (_POINTER, Memory),
    "free": (None, _POINTER),
    "new_tensor_2d": (_POINTER, _POINTER, _INT, _LONG, _LONG),
    "new_tensor_3d": (_POINTER, _POINTER, _INT, _LONG, _LONG, _LONG),
    "mul_mat": (_POINTER, _POINTER, _POINTER, _POINTER),
    "mul_mat_id": (_POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    "new_graph": (_POINTER, _POINTER),
    "build_forward_expand": (None, _POINTER, _POINTER),
    "row_size": (_SIZE, _INT, _LONG),
    "quantize_chunk": (_SIZE, _INT, _POINTER, _POINTER, _LONG, _LONG, _LONG, _POINTER),
    "backend_alloc_ctx_tensors_from_buft": (_POINTER, _POINTER, _POINTER),
    "backend_tensor_set": (None, _POINTER, _POINTER, _SIZE, _SIZE),
    "backend_tensor_get": (None, _POINTER, _POINTER, _SIZE, _SIZE),
    "backend_buffer_free": (None, _POINTER),
    "backend_cpu_init": (_POINTER,),
    "backend_cpu_set_n_threads": (None, _POINTER, _INT),
    "backend_graph_compute": (_INT, _POINTER, _POINTER),
    "backend_free": (None, _POINTER),
    "backend_rpc_init": (_POINTER, _TEXT, ctypes.c_uint32),
    "backend_rpc_add_server": (_POINTER, _TEXT),
    "backend_rpc_start_server": (None, _TEXT, _TEXT, _SIZE, _SIZE, ctypes.POINTER(_POINTER)),
}


@cache
def ggml(name: str) -> Callable:
    """One of ggml's own functions, named without "ggml_", whichever of the libraries has it.

    llama-cpp-python has no names for them.
    """
    libraries = map(_library, ("ggml", "ggml-base", "ggml-cpu", "ggml-rpc"))  # opened as far as is needed
    function = next(found for one in libraries if (found := getattr(one, f"ggml_{name}", None)) is not None)
    function.restype, *function.argtypes = _FUNCTIONS[name]
    return function


def _library(name: str) -> ctypes.CDLL:
    """As the others ask for it: a wheel has copies where a system would have links, and each would be loaded anew."""
    form = {"win32": "{}.dll", "darwin": "lib{}.dylib"}.get(sys.platform, "lib{}.so.0")
    return ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", form.format(name)))


@cache
def type_layout(tensor_type: int) -> tuple[int, int] | None:
    """(elements per block, bytes per block) of a ggml tensor type; None if this library does not know it."""
    if not 0 <= tensor_type < llama_cpp.GGML_TYPE_COUNT:
        return None
    block, size = ggml("blck_size")(tensor_type), ggml("type_size")(tensor_type)
    return (block, size) if block > 0 and size > 0 else None


@cache
def type_names() -> dict[int, str]:
    """Names of ggml's tensor types: {1: "F16", 8: "Q8_0", ...}."""
    prefix = "GGML_TYPE_"
    return {
        value: name.removeprefix(prefix)
        for name, value in vars(llama_cpp).items()
        if name.startswith(prefix) and name != "GGML_TYPE_COUNT"
    }


def let_go_of_pages(path: str) -> None:
    """Of a mapped file whose weights lie elsewhere now; what is needed of it comes back from the system's cache."""
    if sys.platform != "linux":
        return
    system, name = ctypes.CDLL(None), os.path.realpath(path)
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip("\n").endswith(name):
                start, end = (int(address, 16) for address in line.split(" ", 1)[0].split("-"))
                system.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


class AbortFlag:
    """A flag llama.cpp polls between graph nodes without entering Python.

    A Python callback would need the interpreter lock hundreds of times per pass (and wait up to 5 ms for it while
    another thread computes). The C library's `strlen` on a two-byte buffer is a native "is the flag set": it returns
    0 for an empty string and 1 for a set one. `buffer`: two bytes to use, for instance of memory that processes share.
    """

    def __init__(self, buffer: ctypes.Array | None = None) -> None:
        self._buffer = buffer if buffer is not None else ctypes.create_string_buffer(2)
        library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self.callback = ctypes.cast(library.strlen, llama_cpp.ggml_abort_callback)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self) -> None:
        self._buffer[0] = b"\x01"

    @property
    def is_set(self) -> bool:
        return self._buffer[0] != b"\x00"

    def clear(self) -> None:
        self._buffer[0] = b"\x00"
