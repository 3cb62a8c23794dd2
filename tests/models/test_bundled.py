"""The model files in the repository: small, readable by llama.cpp, with the vocabularies their cards name."""

from itertools import islice
from pathlib import Path

import jinja2
import pytest

from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.llama_file import llama_file

TEXTS = [
    "What are the symptoms of hay fever?",
    "def f(x):\n\treturn x ** 2  # naïve\n",
    "  日本語 🙂 1234567 <b>I'll</b>\r\n\r\nend ",
]
FILES = sorted(path.name for path in Path(__file__).parents[2].glob("models/[!m]*.gguf"))  # the projector is no model


@pytest.fixture(params=FILES)
def bundled(request, models: Path) -> Path:
    return models / request.param


def test_each_file_is_small_enough_for_a_repository(bundled):
    assert bundled.stat().st_size <= 40e6


def test_each_file_loads_and_answers(bundled):
    with llama_file(bundled) as file:
        template = jinja2.Environment().from_string(file.metadata["tokenizer.chat_template"])
        asked = [{"role": "user", "content": "What is 3 + 4?"}]
        first = read_gguf_vocabulary(bundled).control_texts.get(1, b"").decode()
        prompt = template.render(messages=asked, bos_token=first, add_generation_prompt=True)
        start = file.tokenize(prompt.encode(), add_bos=False, special=True)
        said = list(islice(file.generate(start, temp=0.0), 12))
    assert len(set(said)) > 3
    if "target" in bundled.name:  # the drafters need not be right
        assert "3 + 4 = 7" in read_gguf_vocabulary(bundled).decode(said).decode()


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back_byte_by_byte(bundled, text):
    vocabulary = read_gguf_vocabulary(bundled)
    assert vocabulary.decode(vocabulary.encode(text)) == text.encode()
