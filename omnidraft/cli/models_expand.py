"""`python -m omnidraft models expand`: arguments, progress, one line of result per file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from omnidraft.backends.gguf.expand.cache import expanded_adapter, expanded_model, expanded_path
from omnidraft.backends.gguf.expand.model import DTYPES
from omnidraft.backends.gguf.expand.shapes import SHAPES, find_shape
from omnidraft.storage.paths import DataHome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments; `--data-dir` belongs to the main command line."""
    parser.description = (
        "Write a small Llama GGUF at a larger shape: same text, the larger shape's cost. The file goes to the data "
        "home's cache folder. Train on the small model only: the expanded one is another model to a trainer."
    )
    parser.add_argument("source", type=Path, help="the small model, for example models/tiny-target-a-f16.gguf")
    parser.add_argument("--shape", required=True, choices=sorted(SHAPES), help="the shape to expand to")
    parser.add_argument("--dtype", default="F16", choices=DTYPES, type=str.upper, help="type of the weights")
    parser.add_argument("--seed", type=int, default=0, help="draws the filler weights, which change no result")
    parser.add_argument("--adapter", type=Path, action="append", default=[], help="expand this LoRA of the source too")


def run(args: argparse.Namespace, home: DataHome) -> int:
    """Build what is missing and print `path  size  seconds` per file; returns the exit status."""
    shape = find_shape(args.shape)
    started, known = time.monotonic(), expanded_path(home.cache, args.source, shape, args.dtype, args.seed).exists()
    path = expanded_model(home.cache, args.source, shape, args.dtype, args.seed, None if known else _show)
    _print_result(path, "kept from before" if known else f"{time.monotonic() - started:.1f} s")
    for adapter in args.adapter:
        _print_result(expanded_adapter(home.cache, adapter, args.source, shape), "adapter")
    return 0


def _print_result(path: Path, note: str) -> None:
    print(f"{path}  {path.stat().st_size / 1e6:,.1f} MB  {note}")


def _show(fraction: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{fraction:4.0%}", end="\n" if fraction >= 1 else "", file=sys.stderr, flush=True)
