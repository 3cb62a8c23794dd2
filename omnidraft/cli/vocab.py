"""`vocab DRAFTER TARGET`: how well two vocabularies fit each other."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from omnidraft.storage.paths import find_data_home
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab.pair_map import vocabulary_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("drafter", type=Path, help="GGUF (vocabulary-only too) or tokenizer.json")
    parser.add_argument("target", type=Path, help="GGUF (vocabulary-only too) or tokenizer.json")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    home = find_data_home(args.data_dir)
    TRIALS.keep_in(home.cache)
    report = vocabulary_report(args.drafter, args.target, home.cache)
    if args.json:
        print(json.dumps(report))
        return 0
    for name, value in report.items():
        print(f"{name:>13}  {value:,}" if isinstance(value, int) else f"{name:>13}  {value:.3f}")
    return 0
