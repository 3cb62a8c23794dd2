"""Finds model files in folders, for the model lists of the command line and the pages.

A file that cannot be used is listed with the sentence that says why, never dropped silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from omnidraft.backends.gguf_file import ModelInfo, read_info, split_number
from omnidraft.backends.hf_folder import is_model_folder, read_folder
from omnidraft.errors import ModelError


def find_models(folders: Iterable[str | Path]) -> list[ModelInfo]:
    """Every .gguf file and Hugging Face folder under `folders`, each once, sorted by name then path.

    A split model is one entry. A folder's entry has the folder as its path; only targets can be loaded from it.
    Unusable files come back with kind "damaged" and `error` set. Vocabularies, encoders, adapters and projectors are
    listed with their kind, so a caller that offers models to chat with keeps `kind == "model"`.
    """
    paths = {path.resolve(): path for folder in folders for path in _model_paths(Path(folder))}
    models = [_describe(path) for path in paths.values() if split_number(path) in (None, 1)]
    return sorted(models, key=lambda info: (info.name.lower(), str(info.path)))


def _model_paths(folder: Path) -> Iterable[Path]:
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "config.json" in files and is_model_folder(Path(root)):
            yield Path(root)
        for name in sorted(files):
            if name.lower().endswith(".gguf") and not name.startswith("."):
                yield Path(root, name)


def _describe(path: Path) -> ModelInfo:
    try:
        return read_folder(path) if path.is_dir() else read_info(path)
    except ModelError as error:
        size = path.stat().st_size if path.is_file() else 0
        return ModelInfo(path=path, name=path.stem, file_size=size, kind="damaged", error=str(error))
