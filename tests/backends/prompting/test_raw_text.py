"""Prompts without a template: control tokens count, texts that came as ids stay as they are, too long is said."""

from __future__ import annotations

import pytest

from omnidraft.backends.prompting.prompt import RawText
from omnidraft.errors import ContextFull
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary


@pytest.fixture(scope="module", params=["tiny-target-a-f16.gguf", "tiny-target-b-f16.gguf", "tiny-drafter-f16.gguf"])
def vocabulary(request, models):
    return read_gguf_vocabulary(models / request.param)


def test_a_text_is_tokenized_as_it_stands(vocabulary):
    ids = RawText("Once there was").prompt_ids(vocabulary)
    assert vocabulary.decode(ids).decode().strip() == "Once there was"
    assert (ids[0] == vocabulary.bos) == bool(vocabulary.add_bos)


def test_control_tokens_count_as_such(vocabulary):
    text, token = next(iter(vocabulary.controls.items()))
    ids = RawText(f"Hi{text}there{text}").prompt_ids(vocabulary)
    assert ids.count(token) >= 2
    assert b"".join(vocabulary.pieces[i] for i in ids).replace(b" ", b"") == b"Hithere"


def test_nothing_is_still_something_to_read(vocabulary):
    assert len(RawText("").prompt_ids(vocabulary)) == 1
    assert RawText("\ud83d").prompt_ids(vocabulary)


def test_ids_stay_as_they_are_for_the_target(vocabulary):
    ids = vocabulary.encode("Once there was")
    raw = RawText.of_ids(ids, vocabulary)
    assert raw.target_ids(vocabulary, (), 4096) == ids
    assert raw.text == "Once there was"
    for wrong in (-1, vocabulary.size):
        with pytest.raises(ValueError, match="outside"):
            RawText.of_ids([wrong], vocabulary)


@pytest.mark.parametrize("text", ["word " * 100, "x" * 50_000_000])
def test_what_leaves_no_room_is_refused(vocabulary, text):
    with pytest.raises(ContextFull, match="raise the context length"):
        RawText(text).target_ids(vocabulary, (), 64)
