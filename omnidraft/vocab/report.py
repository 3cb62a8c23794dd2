"""What two vocabularies have in common, as `python -m omnidraft vocab` prints it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from omnidraft.vocab.hf_vocab import read_tokenizer_json
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from omnidraft.vocab.pair_map import PairMap
from omnidraft.vocab.vocabulary import Vocabulary


def load_vocabulary(path: str | Path) -> Vocabulary:
    """From a GGUF file (vocabulary-only ones too), a tokenizer.json, or a folder that holds one. ModelError if not."""
    path = Path(path)
    if path.is_dir() and (path / "tokenizer.json").is_file():
        path = path / "tokenizer.json"
    if path.suffix == ".json":
        return read_tokenizer_json(path)
    return read_gguf_vocabulary(path)


def vocabulary_report(drafter: str | Path, target: str | Path, cache_dir: Path | None = None) -> dict[str, int | float]:
    """PairMap.report() of two files and `seconds`, reading included."""
    start = perf_counter()
    report = PairMap.build(load_vocabulary(drafter), load_vocabulary(target), cache_dir).report()
    return {**report, "seconds": round(perf_counter() - start, 3)}
