"""Finds model files in folders, for the model lists of the command line and the pages.

A file that cannot be used is listed with the sentence that says why, never dropped silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from omnidraft.backends.gguf.file import ModelInfo, read_info, split_number
from omnidraft.backends.hf.folder import is_model_folder, read_folder
from omnidraft.backends.other_programs import named_files
from omnidraft.errors import ModelError


def find_models(
    folders: Iterable[str | Path], programs: Iterable[str] = (), named: Iterable[Path] = ()
) -> list[ModelInfo]:
    """Every .gguf file and Hugging Face folder under `folders`, each once, sorted by name then path.

    programs: other programs (other_programs.PROGRAMS) whose models are listed too, under the names they have there.
    named: files and model folders that are listed wherever they lie.
    A split model is one entry. A folder's entry has the folder as its path; only targets can be loaded from it.
    Unusable files come back with kind "damaged" and `error` set; other programs' folders that cannot be targets are
    left out, for those hold all sorts of models. Vocabularies, encoders, adapters and projectors are listed with their
    kind, so a caller that offers models to chat with keeps `kind == "model"`.
    """
    found: dict[Path, tuple[Path, str | None]] = {}
    for folder in folders:
        for path in _model_paths(Path(folder)):
            found[_real(path)] = (path, None)
    for program in programs:
        for path, name in _paths_of(program):
            found.setdefault(_real(path), (path, name))
    for path in named:
        found.setdefault(_real(path), (path, None))
    models = [_named(path, name) for path, name in found.values() if split_number(path) in (None, 1)]
    return sorted(models, key=lambda info: (info.name.lower(), str(info.path)))


def _paths_of(program: str) -> Iterator[tuple[Path, str | None]]:
    """Model files of another program, and the names of those whose own say nothing."""
    for path, name in named_files(program):
        if path.is_file():
            yield path, name
            continue
        for inner in _model_paths(path):
            if inner.is_file():
                yield inner, None  # a GGUF file's own name says more than its repository's
            elif _describe(inner).kind == "model":
                yield inner, name


def _model_paths(folder: Path) -> Iterable[Path]:
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "config.json" in files and is_model_folder(Path(root)):
            yield Path(root)
        for name in sorted(files):
            if name.lower().endswith(".gguf") and not name.startswith("."):
                yield Path(root, name)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises where links run in a circle


def _named(path: Path, name: str | None) -> ModelInfo:
    info = _describe(path)
    return replace(info, name=name) if name else info


def _describe(path: Path) -> ModelInfo:
    """What the file or folder says; headers with vocabularies take a moment to read, so they are remembered."""
    try:
        if path.is_dir():
            return read_folder(path)
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size) if split_number(path) is None else read_info(path)
    except OSError as error:
        return ModelInfo(path=path, name=path.stem, kind="damaged", error=f"{path} cannot be read: {error.strerror}.")
    except ModelError as error:
        size = path.stat().st_size if path.is_file() else 0
        return ModelInfo(path=path, name=path.stem, file_size=size, kind="damaged", error=str(error))
    except Exception as error:  # whatever one file holds, the others are listed
        told = f"{path} cannot be read ({type(error).__name__}); it is damaged or no model."
        return ModelInfo(path=path, name=path.stem, kind="damaged", error=told)


@lru_cache(maxsize=512)
def _read(path: Path, _changed: int, _size: int) -> ModelInfo:
    return read_info(path)
