"""Only adapters that llama.cpp can use with this very model come through; the others would abort the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.adapter_check import check_adapter
from omnidraft.backends.gguf.file import ModelInfo, read_info
from omnidraft.errors import ModelError


@pytest.fixture
def drafter(models: Path) -> ModelInfo:
    return read_info(models / "tiny-drafter-f16.gguf")


def refusal(path: Path, model: ModelInfo) -> str:
    with pytest.raises(ModelError) as caught:
        check_adapter(path, model)
    return str(caught.value)


def test_a_fitting_adapter_passes(write_adapter, drafter: ModelInfo):
    check_adapter(write_adapter("ok.gguf", drafter.path, rank=4), drafter)


def test_an_adapter_on_untied_output_passes(write_adapter, drafter: ModelInfo):
    check_adapter(write_adapter("out.gguf", drafter.path, only=("output.weight",)), drafter)


def test_output_of_a_tied_model_is_refused(write_adapter, drafter: ModelInfo, models: Path):
    path = write_adapter("out.gguf", drafter.path, only=("output.weight",))
    assert "token embedding" in refusal(path, read_info(models / "tiny-target-a-f16.gguf"))


def test_the_token_embedding_is_refused(write_adapter, drafter: ModelInfo):
    path = write_adapter("embedding.gguf", drafter.path, only=("token_embd.weight",))
    assert "token_embd.weight" in refusal(path, drafter)


def test_another_models_shapes_are_refused(write_adapter, drafter: ModelInfo, models: Path):
    path = write_adapter("other.gguf", models / "tiny-target-a-f16.gguf")
    assert "does not fit" in refusal(path, drafter)


def test_a_layer_the_model_lacks_is_refused(write_adapter, drafter: ModelInfo):
    def move(tensors: dict) -> None:
        for half in "ab":
            tensors[f"blk.9.attn_q.weight.lora_{half}"] = tensors.pop(f"blk.0.attn_q.weight.lora_{half}")

    assert "does not have" in refusal(write_adapter("deep.gguf", drafter.path, change=move), drafter)


def test_half_a_pair_is_refused(write_adapter, drafter: ModelInfo):
    path = write_adapter("half.gguf", drafter.path, change=lambda t: t.pop("blk.0.attn_q.weight.lora_b"))
    assert "one half" in refusal(path, drafter)


def test_unequal_ranks_are_refused(write_adapter, drafter: ModelInfo):
    def shorten(tensors: dict) -> None:
        tensors["blk.0.attn_q.weight.lora_b"] = np.ascontiguousarray(tensors["blk.0.attn_q.weight.lora_b"][:, :3])

    assert "does not fit" in refusal(write_adapter("ranks.gguf", drafter.path, change=shorten), drafter)


@pytest.mark.parametrize(
    "metadata",
    [{"general.type": "model"}, {"adapter.type": "other"}, {"adapter.lora.alpha": float("nan")}],
)
def test_other_kinds_are_refused(write_adapter, drafter: ModelInfo, metadata: dict):
    refusal(write_adapter("kind.gguf", drafter.path, metadata=metadata), drafter)


def test_an_adapter_for_another_architecture_is_refused(write_gguf, drafter: ModelInfo):
    keys = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    tensors = {f"blk.0.attn_q.weight.lora_{half}": np.zeros((8, 128), np.float32) for half in "ab"}
    assert "qwen2" in refusal(write_gguf("q.gguf", "qwen2", keys, tensors), drafter)


def test_an_adapter_without_tensors_is_refused(write_adapter, drafter: ModelInfo):
    assert "without tensors" in refusal(write_adapter("empty.gguf", drafter.path, change=dict.clear), drafter)


def test_a_model_is_no_adapter(drafter: ModelInfo):
    assert "not a LoRA adapter" in refusal(drafter.path, drafter)
