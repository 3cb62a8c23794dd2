"""`models`: what is found; `models get`: one from the Hugging Face Hub; `models import`: a drafter from a folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from omnidraft.backends.discovery import find_models
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.cli import models_get, models_import
from omnidraft.cli.report import add_action
from omnidraft.errors import ModelError
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home

_ACTIONS = {
    "get": (models_get, "fetch a model from the Hugging Face Hub"),
    "import": (models_import, "make a drafter of a small Llama-like Hugging Face folder"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per model")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="look here too (may be repeated)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, (module, text) in _ACTIONS.items():
        module.add_arguments(add_action(actions, name, text, module.run))


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    if args.action is not None:
        return args.act(args, home)
    for folder in args.folder:
        if not folder.is_dir():
            raise ModelError(f"There is no folder {folder}.")
    found = find_models([BUNDLED_MODELS, home.models, *args.folder])
    for model in found:
        print(json.dumps(as_dict(model)) if args.json else line(model))
    if not found and not args.json:
        print("No models found.")
    return 0


def as_dict(model: ModelInfo) -> dict:
    return {
        "name": model.name, "path": str(model.path), "kind": model.kind, "architecture": model.architecture,
        "parameters": model.parameters, "quantization": model.quantization, "context": model.n_ctx_train,
        "vocabulary": model.vocabulary_family, "vocabulary_size": model.vocabulary_size, "bytes": model.file_size,
        "error": model.error,
    }  # fmt: skip


def line(model: ModelInfo) -> str:
    if model.error:
        return f"{model.name:24} {model.error}"
    size = f"{model.parameters / 1e6:,.1f}M" if model.parameters else model.kind
    vocabulary = f"{model.vocabulary_size:,} {model.vocabulary_family}"
    return (
        f"{model.name:24} {model.architecture:10} {size:>9} {model.quantization:8} "
        f"context {model.n_ctx_train:<7,} vocabulary {vocabulary:18} {model.file_size / 1e6:,.1f} MB  {model.path}"
    )
