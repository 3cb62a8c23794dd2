"""Only adapters that llama.cpp can use with this very model come through; the others would abort the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.file import ModelInfo, check_adapter, read_info
from omnidraft.errors import ModelError


@pytest.fixture
def drafter(models: Path) -> ModelInfo:
    return read_info(models / "tiny-drafter-f16.gguf")


def refusal(path: Path, model: ModelInfo) -> str:
    with pytest.raises(ModelError) as caught:
        check_adapter(path, model)
    return str(caught.value)


def moved(tensors: dict) -> None:
    for half in "ab":
        tensors[f"blk.9.attn_q.weight.lora_{half}"] = tensors.pop(f"blk.0.attn_q.weight.lora_{half}")


def shortened(tensors: dict) -> None:
    tensors["blk.0.attn_q.weight.lora_b"] = np.ascontiguousarray(tensors["blk.0.attn_q.weight.lora_b"][:, :3])


@pytest.mark.parametrize("about", [{"rank": 4}, {"only": ("output.weight",)}], ids=["layers", "untied output"])
def test_a_fitting_adapter_passes(write_adapter, drafter: ModelInfo, about: dict):
    check_adapter(write_adapter("ok.gguf", drafter.path, **about), drafter)


@pytest.mark.parametrize(("about", "told"), [
    ({"only": ("token_embd.weight",)}, "token_embd.weight"),
    ({"change": moved}, "does not have"),
    ({"change": lambda tensors: tensors.pop("blk.0.attn_q.weight.lora_b")}, "one half"),
    ({"change": shortened}, "does not fit"),
    ({"change": dict.clear}, "without tensors"),
    ({"metadata": {"general.type": "model"}}, ""),
    ({"metadata": {"adapter.type": "other"}}, ""),
    ({"metadata": {"adapter.lora.alpha": float("nan")}}, ""),
])  # fmt: skip
def test_one_that_llama_cpp_could_not_use_is_refused(write_adapter, drafter: ModelInfo, about: dict, told: str):
    assert told in refusal(write_adapter("odd.gguf", drafter.path, **about), drafter)


def test_what_is_for_another_model_or_no_adapter_is_refused(
    write_adapter, write_gguf, drafter: ModelInfo, models: Path
):
    target = read_info(models / "tiny-target-a-f16.gguf")
    output = write_adapter("out.gguf", drafter.path, only=("output.weight",))
    assert "token embedding" in refusal(output, target), "its output layer is tied to that"
    assert "does not fit" in refusal(write_adapter("other.gguf", target.path), drafter)
    keys = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    tensors = {f"blk.0.attn_q.weight.lora_{half}": np.zeros((8, 128), np.float32) for half in "ab"}
    assert "qwen2" in refusal(write_gguf("q.gguf", "qwen2", keys, tensors), drafter)
    assert "not a LoRA adapter" in refusal(drafter.path, drafter)
