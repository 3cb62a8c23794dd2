"""Other formats of a model's weights, written by llama.cpp's own quantizer, in a process that can be ended meanwhile.

A float form of a file knows no more than the file, but passes over it cost what float weights cost.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp

from omnidraft.backends.gguf.file import usable_info
from omnidraft.backends.llama.runtime import begin_call, failure_reason
from omnidraft.errors import ModelError, StorageError
from omnidraft.format import size
from omnidraft.processes.children import asked, run_bounded
from omnidraft.processes.progress import tell
from omnidraft.storage import scratch
from omnidraft.storage.files import reason

SUFFIX = ".gguf-part"  # of files that are being written
FORMS = {
    "F32": llama_cpp.LLAMA_FTYPE_ALL_F32,
    "F16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "Q5_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
}

_LONGEST, _SPARE = 3600.0, 8 << 30  # seconds and bytes


def requantized(source: Path, form: str, folder: Path) -> Path:
    """The model at `source` with its matrices in `form`, one of FORMS, as `folder`/NAME-FORM.gguf; kept if it is there
    and newer. ModelError if the source is no model, is no single file, or the disk is full; CalledOff if nobody waits
    any more."""
    info = usable_info(source)
    path = folder / f"{source.stem}-{form}.gguf"
    try:
        if path.exists() and path.stat().st_mtime_ns >= source.stat().st_mtime_ns:
            return path
        folder.mkdir(parents=True, exist_ok=True)
        with scratch.replacing(path, SUFFIX) as made:
            _quantize(info.path, made, form)
    except OSError as error:
        raise ModelError(f"{path} could not be written: {reason(error)}.") from error
    return path


def _quantize(source: Path, made: Path, form: str) -> None:
    tell(f"writing the {form} form")
    request = {"source": str(source), "made": str(made), "form": form}
    memory = _SPARE + 8 * source.stat().st_size  # both files and a matrix of them, mapped
    outcome = run_bounded(__spec__.name, request, _LONGEST, memory, {})
    if outcome.answer != "":
        raise ModelError(f"{source} could not be written as {form}: {outcome.answer or 'the quantizer ended early'}.")


def _quantized(request: dict[str, Any]) -> str:
    """In the child: what is wrong, "" if it was written."""
    begin_call()
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = FORMS[request["form"]]
    parameters.allow_requantize = True
    paths = (os.fsencode(request[name]) for name in ("source", "made"))
    return failure_reason() if llama_cpp.llama_model_quantize(*paths, parameters) else ""


# Large files that appear only when they are complete, and room for them on the disk.


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """An empty file, moved onto `out` when the block ends well, so that that is complete or absent. StorageError.

    The gigabytes that killed processes left in that folder, for whatever file, go first.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch.sweep_files(out.parent, f".*{SUFFIX}")
        with scratch.replacing(out, SUFFIX) as temporary:
            yield temporary
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {reason(error)}.") from error


def need_space(folder: Path, needed: int) -> None:
    """StorageError unless `folder` has `needed` bytes free, and 5% to spare."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 1.05 * needed:
        raise StorageError(f"{folder} has {size(free)} free; this needs {size(1.05 * needed)}.")


if __name__ == "__main__":
    print(json.dumps(_quantized(asked())), flush=True)
