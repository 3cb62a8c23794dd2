"""The model files in the repository: small, readable by llama.cpp, with the vocabularies their cards name."""

from pathlib import Path

import jinja2
import pytest
from gguf import GGUFReader

from models.recipe.specs import SPECS
from models.recipe.tokenizers import BYTE_TOKENS, SPACE_MARK
from models.recipe.unpack import read_tokenizer
from tests.llama_file import LlamaFile

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
        template = jinja2.Environment().from_string(spec.template)
        asked = [{"role": "user", "content": "What is 3 + 4?"}]
        start = file.ids(template.render(messages=asked, bos_token=spec.bos, add_generation_prompt=True))
        said = file.greedy(start, 12)
        assert len(set(said)) > 3
        if name != "tiny-drafter":  # which never saw a sum
            assert "3 + 4 = 7" in read_tokenizer(spec, path).decode(said)
        assert file.template() == spec.template


def test_ids_are_those_of_the_vocabulary_and_its_split(bundled):
    """The stored tokens and merges give the ids in `tokenizers` that llama.cpp gives."""
    name, path = bundled
    spec = SPECS[name]
    tokens = GGUFReader(path).fields["tokenizer.ggml.tokens"].contents()
    assert len(tokens) == spec.vocabulary_size
    # Of "spm" no merges are stored; test_recipe compares this kind where it is trained.
    encode = None if spec.vocabulary == "spm" else read_tokenizer(spec, path).encode
    with LlamaFile(path, context=False) as file:
        for text in TEXTS:
            ids = file.ids(text)
            assert encode is None or ids == encode(text, add_special_tokens=False).ids
            assert encode is not None or spelled([tokens[number] for number in ids]) == f" {text}"


def spelled(pieces: list[str]) -> str:
    """The text of SentencePiece-style pieces."""
    data = b"".join(
        bytes([int(piece[3:5], 16)]) if piece in BYTE_TOKENS else piece.replace(SPACE_MARK, " ").encode()
        for piece in pieces
    )
    return data.decode()
