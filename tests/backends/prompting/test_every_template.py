"""What must hold through every template: the same text as transformers, and that typed markers stay
text."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.backends.hf_folders import write_tokenizer
from tests.backends.prompting.every_template import each_template, source
from tests.backends.spm_tokenizers import add_tokens

CHAT = [
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Tell me a joke."},
]
_MARKER = re.compile(r"<[^<>\s'\"{}]{1,40}>|\[/?[A-Z_]{3,}\]|\]<\]\w+\[>\[|[\]\[]~!?\w+[\]\[]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path, controls=())
    return path


@pytest.fixture(scope="module")
def vocabulary(folder: Path) -> Vocabulary:
    return read_tokenizer_json(folder / "tokenizer.json")


def text(template: ChatTemplate, messages: list[dict]) -> str:
    return "".join(span.text for span in template.render(messages))


@each_template
def test_a_plain_chat_is_what_transformers_makes_of_it(name: str, vocabulary: Vocabulary):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    template = source(name)
    try:
        (expected,), _ = utils.render_jinja_template(
            [CHAT], chat_template=template, add_generation_prompt=True, bos_token="", eos_token="", unk_token="",
        )  # fmt: skip
    except Exception as error:  # whatever the template trips over there
        pytest.skip(f"transformers refuses it: {error}")
    assert text(ChatTemplate(template, vocabulary), CHAT) == expected


@each_template
@pytest.mark.parametrize("special", [True, False], ids=["control", "user-defined"])
def test_typed_markers_stay_text(name: str, special: bool, folder: Path, tmp_path: Path):
    markers = tuple(sorted({marker for marker in _MARKER.findall(source(name)) if any(map(str.isalpha, marker))}))
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    ids = set(add_tokens(tmp_path, markers, special=special).values())
    vocabulary = read_tokenizer_json(tmp_path / "tokenizer.json")
    template = ChatTemplate(source(name), vocabulary)

    def written(words: str) -> Counter[int]:
        chat = [{"role": "user", "content": f"Say {words}."}, {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": f"{words} again"}]  # fmt: skip
        return Counter(token for token in prompt_ids(template, vocabulary, chat) if token in ids)

    honest = written("it")
    assert markers == () or honest
    for marker in markers:
        assert written(marker) == honest, marker
    assert written(" and ".join(markers)) == honest
