"""The model files in the repository: small, readable by llama.cpp, with the vocabularies their cards name."""

from pathlib import Path

import pytest
from llama_file import LlamaFile
from tokenizers import Tokenizer

from models.recipe.specs import SPECS

TEXTS = [
    "What are the symptoms of hay fever?",
    "def f(x):\n\treturn x ** 2  # naïve\n",
    "  日本語 🙂 1234567 <b>I'll</b>\r\n\r\nend ",
]


@pytest.fixture(params=sorted(SPECS))
def bundled(request, models: Path) -> tuple[str, Path]:
    return request.param, models / f"{request.param}-f16.gguf"


def test_each_file_is_small_enough_for_a_repository(bundled):
    _, path = bundled
    assert path.stat().st_size <= 40e6


def test_each_file_loads_and_answers(bundled):
    name, path = bundled
    spec = SPECS[name]
    with LlamaFile(path) as file:
        start = file.ids(spec.bos + "\nI would like to book a table")
        assert len(set(file.greedy(start, 12))) > 3
        assert file.template() == spec.template


def test_ids_are_those_of_the_tokenizer_it_was_trained_with(bundled, shared: Path):
    name, path = bundled
    tokenizer = Tokenizer.from_file(str(shared / "bundle" / name / "tokenizer.json"))
    with LlamaFile(path, context=False) as file:
        for text in TEXTS:
            assert file.ids(text) == tokenizer.encode(text, add_special_tokens=False).ids
