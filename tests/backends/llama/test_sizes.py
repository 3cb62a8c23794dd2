"""What a file's header tells about memory, and how many threads a machine gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.backends.gguf.file import ModelInfo, read_info
from omnidraft.backends.llama import sizes
from omnidraft.processes import threads
from omnidraft.processes.threads import step_threads


@pytest.fixture
def target(models: Path) -> ModelInfo:
    return read_info(models / "tiny-target-a-f16.gguf")


def test_the_cache_holds_a_key_and_a_value_per_layer_and_token(target: ModelInfo):
    per_token = 2 * target.layers * target.width * 2  # as many KV heads as heads, two bytes a number
    assert sizes.kv_cache_bytes(target, 100, "f16") == 100 * per_token
    assert sizes.kv_cache_bytes(target, 100, "q8_0") == pytest.approx(100 * per_token * 34 / 64, rel=1e-3)


@pytest.mark.parametrize(
    ("architecture", "heads"),
    [("llama", [4, 1, 2]), ("lfm2", [4, 0, 2])],  # a layer of no heads is one without attention, illegal in a Llama
)
def test_heads_may_differ_by_layer(write_gguf, architecture: str, heads: list[int]):
    keys = {"block_count": 3, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": heads}
    info = read_info(write_gguf("layers.gguf", architecture, {f"{architecture}.{k}": v for k, v in keys.items()}))
    assert sizes.kv_cache_bytes(info, 1, "f16") == sum(heads) * 32 * 2


def test_states_beside_keys_and_values_are_left_to_llama_cpp(write_gguf):
    keys = {"jamba.block_count": 3, "jamba.attention.head_count": 4, "jamba.ssm.state_size": 16}
    info = read_info(write_gguf("state.gguf", "jamba", keys))
    assert sizes.kv_cache_bytes(info, 10**9, "f16") is None


def test_prompt_steps_shrink_with_the_context(target: ModelInfo):
    large = replace(target, heads=32)
    assert sizes.prompt_step(large, 2048, 512) == 512
    assert sizes.prompt_step(large, 8192, 512) == 128
    assert sizes.prompt_step(large, 131_072, 512) == 0


def test_a_model_gets_threads_for_its_weights_and_never_more_than_there_are_cores(monkeypatch):
    monkeypatch.setattr(threads, "physical_cores", lambda: 8)
    assert [step_threads(megabytes << 20) for megabytes in (0, 2, 6, 9, 24, 4_000)] == [1, 1, 2, 3, 8, 8]


def test_a_pass_reads_everything_but_an_embedding_that_is_not_the_output_too(models: Path, target: ModelInfo):
    drafter = read_info(models / "tiny-drafter-f16.gguf")
    assert (target.tied, drafter.tied) == (True, False)
    assert sizes.pass_bytes(target) == sum(sizes.tensor_bytes(target).values()) > 0.95 * target.file_size
    embedding = drafter.vocabulary_size * drafter.width * 2
    assert sizes.pass_bytes(drafter) == sum(sizes.tensor_bytes(drafter).values()) - embedding
