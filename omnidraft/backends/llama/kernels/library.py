"""Our own products of weights with rows of activations: built once for this machine, checked, and put into ggml.

The C++ source (products.cpp) lies beside this file. It needs a compiler and the headers that llama-cpp-python installs;
where one is missing, where the build fails or a product comes out wrong, llama.cpp's own kernels compute as they
always did, and `why_not` says so. What was built is kept by source, compiler, library and processor.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import llama_cpp
from platformdirs import user_cache_dir

from omnidraft.storage.scratch import FileLock

_HERE = Path(__file__).resolve().parent
_SOURCES = sorted((*_HERE.glob("*.cpp"), *_HERE.glob("*.h"), _HERE / "check.py"))
_LIBRARIES = Path(llama_cpp.__file__).resolve().parent / "lib"
_HEADERS = _LIBRARIES.parents[1] / "include"  # where llama-cpp-python installs them
# -ffp-contract: every product and sum as it is written, whatever is around it, so that rows do not depend on others.
_FLAGS = (
    "-O3", "-std=c++17", "-shared", "-fPIC", "-fno-rtti", "-ffp-contract=off", "-fvisibility=hidden", "-w", "-pthread",
)  # fmt: skip
_NATIVE = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
_SECONDS = 600.0  # that a build may take on a busy machine
_MODULE = "omnidraft.backends.llama.kernels.check"
LEFT_OUT = "OMNIDRAFT_KERNELS"  # "llama.cpp" in the environment leaves ours out: to compare, and for who tries them


class _Place:
    """Where the library for this machine is, once it is built and checked, or else the sentence why there is none."""

    def __init__(self) -> None:
        folder = Path(user_cache_dir("omnidraft", appauthor=False)) / "kernels"
        self.library = folder / f"{_key()}.so"
        self.refusal = self.library.with_suffix(".txt")

    def refused(self) -> str:
        return self.refusal.read_text() if self.refusal.is_file() else ""


@cache
def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))), None)


@cache
def _key() -> str:
    """Of what the built library depends on."""
    found = hashlib.sha256()
    for source in _SOURCES:
        found.update(source.read_bytes())
    found.update(
        repr((_compiler(), _FLAGS, llama_cpp.__version__, str(_LIBRARIES), _processor(), platform.libc_ver())).encode()
    )
    return found.hexdigest()[:32]


def _processor() -> str:
    """What tells processors with other instructions apart."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())


def _binary(name: str) -> Path | None:
    """ggml's own library of this name, as other libraries ask for it."""
    return next(iter(sorted(_LIBRARIES.glob(f"lib{name}.so.?")) or sorted(_LIBRARIES.glob(f"lib{name}.dylib"))), None)


def build(flags: tuple[str, ...] = (_NATIVE,), into: Path | None = None) -> str:
    """Build and check the library; "" or the sentence that says why there is none. Takes half a minute.

    Another process that builds it already is waited for. flags, into: of another build than this machine's, for tests.
    """
    place = _Place()
    target = into or place.library
    lock, given_up = FileLock(target.with_suffix(".lock")), monotonic() + _SECONDS
    try:
        while not lock.acquire():
            if monotonic() > given_up:  # or nothing can be locked there
                return "another process is building them"
            sleep(0.1)
        if target.is_file():
            return ""
        why = _compiled_and_checked(flags, target) if sys.platform != "win32" else "Windows has no compiler for it"
        if why and into is None:
            place.refusal.write_text(why)
        return why
    except subprocess.TimeoutExpired:  # what may pass is tried again at the next start
        return f"{_SECONDS:.0f} seconds were not enough to build it"
    except OSError as error:
        return f"it could not be built: {error}"
    finally:
        lock.release()


def _compiled_and_checked(flags: tuple[str, ...], target: Path) -> str:
    compiler, needed = _compiler(), [_binary("ggml-cpu"), _binary("ggml-base")]
    if compiler is None:
        return "there is no C++ compiler"
    if not (_HEADERS / "ggml-cpu.h").is_file() or None in needed:
        return "llama-cpp-python was installed without its headers"
    made = target.with_suffix(".new")
    command = [compiler, *_FLAGS, *flags, f"-I{_HEADERS}", str(_HERE / "products.cpp"), "-o", str(made)]
    try:
        done = subprocess.run(
            [*command, *map(str, needed), f"-Wl,-rpath,{_LIBRARIES}"], capture_output=True, text=True, errors="replace",
            timeout=_SECONDS,
        )  # fmt: skip
        if done.returncode:
            return f"{Path(compiler).name} could not build it: {_first_error(done.stderr)}"
        root = str(_HERE.parents[3])
        done = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE, str(made)], capture_output=True, text=True, errors="replace",
            timeout=_SECONDS,
            env={**os.environ, LEFT_OUT: "llama.cpp", "PYTHONPATH": root, "GGML_NO_BACKTRACE": "1"},
        )  # fmt: skip
        if done.returncode:
            return done.stdout.strip() or f"its check ended with code {done.returncode}"
        made.replace(target)
        return ""
    finally:
        made.unlink(missing_ok=True)


def _first_error(said: str) -> str:
    return next((line for line in said.splitlines() if "error" in line), said.strip()[:200] or "no reason was given")


def build_soon() -> threading.Thread:
    """Build it in the background where that was not tried yet."""
    thread = threading.Thread(target=lambda: build() if _untried() else None, name="kernels", daemon=True)
    thread.start()
    return thread


def wait_for(building: threading.Thread) -> None:
    """Until that is done, with a word about it in the terminal."""
    if building.is_alive() and _untried():
        print("Building what makes passes quick on this machine (half a minute, once).", file=sys.stderr, flush=True)
    building.join()


def _untried() -> bool:
    place = _Place()
    return not (LEFT_OUT in os.environ or place.library.is_file() or place.refused())


class _Registered:
    """ggml's buffer type of ours, or None: settled for this process as its first model is loaded.

    Later is too late. ggml goes through its list at every product, in threads that may be computing; and an adapter of
    a model that lies in a layout which is no longer listed would be put into that layout, which ends the program.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.settled = False
        self._pointer: int | None = None

    def pointer(self) -> int | None:
        with self._lock:
            if not self.settled:
                self._pointer, self.settled = _register(_Place().library), True
            return self._pointer


_REGISTERED = _Registered()


def registered() -> int | None:
    """The buffer type of ggml's that lays weights out for our products, in front of all others; None where there was
    none when this was asked first, which settles it."""
    return None if LEFT_OUT in os.environ else _REGISTERED.pointer()


def _register(library: Path) -> int | None:
    if not library.is_file():
        return None
    try:
        function = ctypes.CDLL(str(library)).omnidraft_register
    except (OSError, AttributeError):  # a power cut's leftover: the next start builds another
        with suppress(OSError):
            library.unlink()
        return None
    function.restype = ctypes.c_void_p
    return function()


def reader() -> Callable[[int, int, int], None] | None:
    """What reads (address, bytes, threads) of memory and does nothing else, to see how fast that is."""
    if registered() is None:
        return None
    function = ctypes.CDLL(str(_Place().library)).omnidraft_read
    function.restype, function.argtypes = None, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def in_use() -> str:
    """A name of these kernels, "" where llama.cpp's own compute: what was measured with others does not hold. Settles
    nothing."""
    if LEFT_OUT in os.environ:
        return ""
    there = registered() is not None if _REGISTERED.settled else _Place().library.is_file()
    return _key() if there else ""


@cache
def _as_built() -> str:
    """What tells builds of llama.cpp's own kernels apart."""
    states = [path.stat() for path in sorted(_LIBRARIES.glob("*ggml-cpu*"))]
    return repr((llama_cpp.llama_print_system_info(), [(state.st_size, state.st_mtime_ns) for state in states]))


def computing() -> str:
    """A name of all kernels that compute here, ours or not: what was found out with others may not hold."""
    return f"{in_use()} {_key()} {_as_built()}"


def why_not() -> str:
    """Why llama.cpp's own kernels compute, as one sentence; "" where ours do."""
    if LEFT_OUT in os.environ or registered() is not None:
        return ""
    place = _Place()
    why = (
        "they serve from the next start on" if place.library.is_file() else place.refused() or "they are not built yet"
    )
    return f"Passes take longer than they need to: OmniDraft's own kernels are not there ({why})."
