"""`python -m omnidraft models import`: a Hugging Face folder becomes a GGUF file among the data home's models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from omnidraft.backends.gguf.convert import DTYPES, convert_folder
from omnidraft.backends.gguf.file import read_info
from omnidraft.errors import ModelError
from omnidraft.storage.paths import DataHome, make_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments; `--data-dir` belongs to the main command line."""
    parser.description = (
        "Make a GGUF file of a small Llama-like Hugging Face folder, so that it can be a drafter. The file goes to the "
        "models folder of the data home, where --drafter finds it by name."
    )
    parser.add_argument("source", type=Path, metavar="FOLDER", help="the folder with config.json and the weights")
    parser.add_argument("--dtype", default="Q8_0", choices=DTYPES, type=str.upper, help="type of the weights")
    parser.add_argument("--name", help="what to call it (default: the folder's name)")
    parser.add_argument("--force", action="store_true", help="replace a file of the same name")


def run(args: argparse.Namespace, home: DataHome) -> int:
    """Convert and print `path  size`."""
    name = args.name or args.source.resolve().name
    if not name or Path(name).name != name or name.startswith("."):
        raise ModelError(f"A model cannot be called {name[:100]!r}; give a plain file name with --name.")
    make_folder(home.models)
    out = home.models / f"{name}-{args.dtype.lower()}.gguf"
    if out.exists() and not args.force:
        raise ModelError(f"{out} exists already; give another --name, or --force to replace it.")
    convert_folder(args.source, out, args.dtype, name)
    info = read_info(out)
    print(f"{out}  {info.parameters / 1e6:,.1f}M parameters  {info.file_size / 1e6:,.1f} MB")
    if info.chat_template is None:
        print("It has no chat template, so conversations are written to it as plain text.", file=sys.stderr)
    return 0
