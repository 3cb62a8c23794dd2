"""Lets go of the helper threads that computing leaves behind.

GNU OpenMP, which llama.cpp's builds for Linux compute with, keeps a pool of helpers for *every* thread that ever
computed. Once all pools together outnumber the processors, helpers no longer spin while they wait but sleep, and
waking them takes longer than the work: on two cores a pass of a 4M target took 6.4 ms in the second thread that
computed and 1.2 ms in the first. So whoever is done for the moment releases its own pool: a model behind opening
and whenever it is emptied, an answer at its end. A new pool takes about a tenth of a millisecond.

Knows no model, and loads nothing: without llama.cpp, or where it computes otherwise, there is nothing to release.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from types import ModuleType

_HARD = 2  # omp_pause_hard


@cache
def _openmp(llama_cpp: ModuleType) -> ctypes.CDLL | None:
    """The GNU OpenMP that llama.cpp computes with; None if it is another one, or too old to release anything."""
    try:
        # loaded already; a handle also finds what the library is linked to
        library = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__ or ""), "lib", "libggml-cpu.so"))
    except OSError:
        return None
    # LLVM's has one pool for all threads, and pausing would end it under the others
    gnu = hasattr(library, "GOMP_parallel") and not hasattr(library, "__kmpc_fork_call")
    return library if gnu and hasattr(library, "omp_pause_resource_all") else None


def release_helpers() -> bool:
    """End the helpers of the calling thread; its next pass starts new ones. False if there is no way to."""
    llama_cpp = sys.modules.get("llama_cpp")
    openmp = _openmp(llama_cpp) if llama_cpp is not None else None
    if openmp is None:
        return False
    threads = openmp.omp_get_max_threads()
    released = openmp.omp_pause_resource_all(_HARD) == 0
    if openmp.omp_get_max_threads() != threads:  # PyTorch may share the library, and set this for this thread
        openmp.omp_set_num_threads(threads)
    return released
