"""Headers and adapters with which llama.cpp ends the whole process are refused in a sentence before it sees them."""

from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.file import ModelInfo, check_adapter, read_info, usable_info
from omnidraft.errors import ModelError
from omnidraft.storage.trial import Trials
from tests.backends.altered import NUMBERS, altered

U32 = NUMBERS.UINT32


@pytest.mark.parametrize(("changes", "told"), [
    ({"llama.block_count": (0, U32)}, "block_count is 0"),
    ({"llama.block_count": (513, U32)}, "block_count is 513"),
    ({"llama.context_length": (1, U32)}, "context_length is 1"),
    ({"llama.attention.head_count_kv": (-1, NUMBERS.INT32)}, "head_count_kv is -1"),
])  # fmt: skip
def test_counts_that_no_model_has_are_refused(models: Path, tmp_path: Path, changes, told):
    file = altered(models / "tiny-drafter-f16.gguf", tmp_path / "odd.gguf", changes)
    with pytest.raises(ModelError, match=told):
        usable_info(file)


@pytest.mark.parametrize(("changes", "names"), [
    ({"llama.expert_count": (2, U32), "llama.expert_used_count": (4, U32)}, {}),
    ({"llama.rope.scaling.type": ("nope", NUMBERS.STRING)}, {}),
    ({"llama.attention.head_count_kv": ([6, 0], NUMBERS.INT32)}, {}),
    ({"llama.attention.layer_norm_rms_epsilon": (float("nan"), NUMBERS.FLOAT32)}, {}),
    ({}, {700: "", 701: "[EMPTY_700]"}),  # a name that llama.cpp gives to empty tokens, beside one
    ({}, {3 + 0xF3: "<byte 243>"}),
])  # fmt: skip
def test_what_ends_llama_cpp_is_found_by_trying(models: Path, tmp_path: Path, changes, names):
    file = altered(models / "tiny-drafter-f16.gguf", tmp_path / "odd.gguf", changes, names)
    usable_info(file)
    with pytest.raises(ModelError, match=r"makes llama\.cpp end"):
        Trials().require(file)


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


def test_what_is_for_another_model_or_no_adapter_is_refused(write_adapter, write_gguf, drafter, models):
    target = read_info(models / "tiny-target-a-f16.gguf")
    output = write_adapter("out.gguf", drafter.path, only=("output.weight",))
    assert "token embedding" in refusal(output, target), "its output layer is tied to that"
    assert "does not fit" in refusal(write_adapter("other.gguf", target.path), drafter)
    keys = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    tensors = {f"blk.0.attn_q.weight.lora_{half}": np.zeros((8, 128), np.float32) for half in "ab"}
    assert "qwen2" in refusal(write_gguf("q.gguf", "qwen2", keys, tensors), drafter)
    assert "not a LoRA adapter" in refusal(drafter.path, drafter)
