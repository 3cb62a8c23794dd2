"""Every architecture computes what the library does and takes tokens back: with sliding windows, with layers that carry
a state on, and inside of models that read pictures too."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnidraft.backends.base import Aborted
from omnidraft.backends.discovery import find_models
from omnidraft.backends.hf.target import HfTarget
from omnidraft.settings.config import ModelSettings
from tests.backends.hf_folders import write_folder

SETTINGS = ModelSettings(n_ctx=256, threads=1, device="cpu")
TOLERANCE = 1e-3  # float32; the logits spread over about 10
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
          "image_size": 28, "patch_size": 14}  # fmt: skip
STATE = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
         "linear_value_head_dim": 16, "layer_types": ["linear_attention", "full_attention"]}  # fmt: skip
FOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 3": ("Gemma3Config", {"text_config": {"head_dim": 16, "sliding_window": 8}, "vision_config": VISION}),
    "Ministral 3": ("Mistral3Config", {
        "text_config": {"model_type": "ministral3", "head_dim": 16},
        "vision_config": {**VISION, "model_type": "pixtral"}}),
    "Qwen3.5": ("Qwen3_5Config", {
        "text_config": {"head_dim": 16, **STATE},
        "vision_config": {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
                          "out_hidden_size": 64}}),
    "LFM2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "Mistral": ("MistralConfig", {"sliding_window": 16}),
    "Gemma 2": ("Gemma2Config", {"sliding_window": 16, "head_dim": 16, "query_pre_attn_scalar": 16}),
    "Qwen3": ("Qwen3Config", {"head_dim": 16}),
    "Phi3": ("Phi3Config", {}),
    "GPT-2": ("GPT2Config", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}),
}  # fmt: skip


@pytest.fixture(scope="module", params=FOLDERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    config, settings = FOLDERS[request.param]
    if not hasattr(transformers, config):
        pytest.skip(f"the installed transformers has no {config}")
    return write_folder(tmp_path_factory.mktemp("models") / request.param, config, **settings)


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[HfTarget]:
    with HfTarget.open(folder, SETTINGS) as target:
        yield target


@pytest.fixture
def target(opened: HfTarget) -> HfTarget:
    opened.rewind(0)
    return opened


@pytest.fixture(scope="module")
def expected(folder: Path) -> tuple[list[int], np.ndarray]:
    """Ids and the library's own logits behind each."""
    import torch
    import transformers

    described = json.loads((folder / "config.json").read_text())
    loader = transformers.AutoModelForImageTextToText if "vision_config" in described else (
        transformers.AutoModelForCausalLM)  # fmt: skip
    model = loader.from_pretrained(folder).eval()
    ids = np.random.default_rng(3).integers(0, 300, 60).tolist()
    with torch.no_grad():
        return ids, model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def test_it_computes_what_the_library_does_whatever_is_taken_back(
    target: HfTarget, expected: tuple[list[int], np.ndarray]
):
    ids, logits = expected
    wrong = [*reversed(ids)]
    np.testing.assert_allclose(target.extend(ids[:20], 20), logits[:20], atol=TOLERANCE)
    for length, others in ((20, 5), (22, 7), (21, 1), (30, 12), (12, 3), (0, 4)):
        target.rewind(min(length, len(target.tokens)))
        held = len(target.tokens)
        assert target.tokens == ids[:held]
        target.extend(wrong[:others], others)  # proposals that are not accepted
        target.rewind(held)
        np.testing.assert_allclose(target.extend(ids[held : held + 8], 8), logits[held : held + 8], atol=TOLERANCE)


def test_what_an_abort_leaves_is_what_the_tokens_say(target: HfTarget, expected: tuple[list[int], np.ndarray]):
    ids, logits = expected
    target.extend(ids[:20], 1)
    inner = getattr(target._model.base_model, "language_model", target._model.base_model)
    if not hasattr(inner, "layers"):
        pytest.skip("nothing looks between the layers of this one")
    hook = inner.layers[1].register_forward_pre_hook(lambda *_: target.abort())
    last = inner.layers[-1].register_forward_hook(lambda *_: (_ for _ in ()).throw(Aborted))
    with pytest.raises(Aborted):
        target.extend(ids[20:24], 4)
    hook.remove()
    last.remove()
    held = len(target.tokens)
    assert target.tokens == ids[:held]
    np.testing.assert_allclose(target.extend(ids[held:30], 4), logits[26:30], atol=TOLERANCE)


def test_it_is_listed_as_a_model(folder: Path):
    (found,) = [info for info in find_models([folder.parent]) if info.path == folder]
    assert (found.kind, found.error) == ("model", None)
