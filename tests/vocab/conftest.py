"""Vocabularies and pair maps, each loaded once per test run."""

from functools import lru_cache
from itertools import permutations
from pathlib import Path

import pytest

from omnidraft.vocab import PairMap, Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT.parent / "shared" / "vocabs"
REFERENCE_NAMES = ("deepseek-llm", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2")
BUNDLED_NAMES = ("tiny-drafter", "tiny-target-a", "tiny-target-a2", "tiny-target-b")
PAIRS = list(permutations(REFERENCE_NAMES, 2))


def path_of(name: str) -> Path:
    if name in BUNDLED_NAMES:
        return ROOT / "models" / f"{name}-f16.gguf"
    if name == "smol-drafter":
        return ROOT / "models" / f"{name}-q5_0.gguf"
    return REFERENCE / f"ggml-vocab-{name}.gguf"


@lru_cache
def vocabulary(name: str) -> Vocabulary:
    path = path_of(name)
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    return read_gguf_vocabulary(path)


@lru_cache(maxsize=6)
def pair_map(drafter: str, target: str) -> PairMap:
    return PairMap.build(vocabulary(drafter), vocabulary(target), None)


@pytest.fixture(params=[*BUNDLED_NAMES, *REFERENCE_NAMES])
def any_vocabulary(request) -> Vocabulary:
    return vocabulary(request.param)


@pytest.fixture(params=["tiny-target-a", "tiny-target-b"])
def bundled_pair(request) -> PairMap:
    return pair_map("tiny-drafter", request.param)
