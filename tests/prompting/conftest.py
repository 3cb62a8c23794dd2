"""One vocabulary with ChatML's control tokens, and templates over it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary


@pytest.fixture(scope="session")
def vocabulary(models: Path) -> Vocabulary:
    return read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")


@pytest.fixture(scope="session")
def chatml(vocabulary: Vocabulary) -> Callable[[str], ChatTemplate]:
    """chatml(source) -> a template that calls its model "It"."""
    return lambda source: ChatTemplate(source, vocabulary, "It")
