"""`vocab DRAFTER TARGET`: how well two vocabularies fit each other."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

from omnidraft.storage.paths import find_data_home
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from omnidraft.vocab.pair_map import PairMap
from omnidraft.vocab.vocabulary import Vocabulary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("drafter", type=Path, help="GGUF (vocabulary-only too) or tokenizer.json")
    parser.add_argument("target", type=Path, help="GGUF (vocabulary-only too) or tokenizer.json")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    TRIALS.keep_in(home.cache)
    start = perf_counter()
    pair = PairMap.build(load_vocabulary(args.drafter), load_vocabulary(args.target), home.cache)
    report = {**pair.report(), "seconds": round(perf_counter() - start, 3)}  # reading included
    if args.json:
        print(json.dumps(report))
        return 0
    for name, value in report.items():
        print(f"{name:>13}  {value:,}" if isinstance(value, int) else f"{name:>13}  {value:.3f}")
    return 0


def load_vocabulary(path: str | Path) -> Vocabulary:
    """From a GGUF file (vocabulary-only ones too), a tokenizer.json, or a folder that holds one. ModelError if not."""
    path = Path(path)
    if path.is_dir() and (path / "tokenizer.json").is_file():
        path = path / "tokenizer.json"
    if path.suffix == ".json":
        return read_tokenizer_json(path)
    return read_gguf_vocabulary(path)
