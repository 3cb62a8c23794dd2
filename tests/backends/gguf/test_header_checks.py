"""Headers with which llama.cpp ends the whole process are refused in a sentence before it sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.backends.gguf.file import check_adapter, read_info, usable_info
from omnidraft.errors import ModelError
from tests.backends.altered import NUMBERS, altered

U32, TEXT = NUMBERS.UINT32, NUMBERS.STRING


@pytest.mark.parametrize(("changes", "told"), [
    ({"llama.expert_count": (2, U32), "llama.expert_used_count": (4, U32)}, "expert_used_count is 4"),
    ({"llama.expert_count": (8, U32)}, "expert_used_count is 0"),
    ({"llama.rope.scaling.type": ("nope", TEXT)}, "rope.scaling.type is nope"),
    ({"llama.block_count": (0, U32)}, "block_count is 0"),
    ({"llama.block_count": (513, U32)}, "block_count is 513"),
    ({"llama.context_length": (1, U32)}, "context_length is 1"),
    ({"llama.attention.head_count_kv": ([6, 0], NUMBERS.INT32)}, "head_count_kv"),
    ({"llama.attention.head_count_kv": ([6, 0, 6, 0, 6, 0], NUMBERS.INT32)}, "head_count_kv is a list of 6"),
    ({"llama.attention.head_count_kv": (-1, NUMBERS.INT32)}, "head_count_kv is -1"),
])  # fmt: skip
def test_settings_that_end_the_process_are_refused(models: Path, tmp_path: Path, changes, told):
    file = altered(models / "tiny-drafter-f16.gguf", tmp_path / "odd.gguf", changes)
    with pytest.raises(ModelError, match=told):
        usable_info(file)


def test_a_name_that_llama_cpp_gives_to_empty_tokens_is_refused_beside_one(models: Path, tmp_path: Path):
    source = models / "tiny-drafter-f16.gguf"
    file = altered(source, tmp_path / "empty.gguf", {}, {700: "", 701: "[EMPTY_700]"})
    with pytest.raises(ModelError, match="spelled alike"):
        usable_info(file)
    usable_info(altered(source, tmp_path / "one.gguf", {}, {700: "", 701: "[EMPTY_701]"}))


def test_a_vocabulary_that_cannot_spell_every_byte_is_refused(models: Path, tmp_path: Path):
    names = {3 + byte: f"<byte {byte}>" for byte in range(256)}
    file = altered(models / "tiny-drafter-f16.gguf", tmp_path / "bytes.gguf", {}, names)
    with pytest.raises(ModelError, match="single bytes"):
        usable_info(file)


def test_what_is_bundled_passes(models: Path):
    for file in models.glob("*.gguf"):
        if file.name.startswith("mmproj"):
            assert read_info(file).kind == "projector"
        else:
            assert usable_info(file).kind == "model"


def test_an_alpha_of_another_type_is_refused(models: Path, tmp_path: Path, write_adapter):
    """llama.cpp asserts that it is float32; the value alone does not tell."""
    model = models / "tiny-drafter-f16.gguf"
    adapter = write_adapter("a.gguf", model)
    check_adapter(adapter, read_info(model))
    wide = altered(adapter, tmp_path / "wide.gguf", {"adapter.lora.alpha": (8.0, NUMBERS.FLOAT64)})
    with pytest.raises(ModelError, match="alpha"):
        check_adapter(wide, read_info(model))
