"""An expansion in the mixed format that most people download."""

from __future__ import annotations

import gguf
import pytest

from omnidraft.backends.gguf.expand.model import expand_model
from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.settings.config import ModelSettings

WIDE = Shape("wide", width=512, layers=8, heads=16, kv_heads=16, head_dim=32, ffn=1024, vocab=8448)  # blocks of 256


@pytest.fixture(scope="module")
def mixed(models, tmp_path_factory):
    out = tmp_path_factory.mktemp("mixed") / "mixed.gguf"
    return expand_model(models / "tiny-target-a-f16.gguf", out, WIDE, "Q4_K_M")


def test_its_tensors_are_of_two_k_quants(mixed):
    kinds = {t.tensor_type.name for t in gguf.GGUFReader(mixed).tensors if len(t.shape) == 2}
    assert {"Q4_K", "Q6_K"} <= kinds <= {"Q4_K", "Q5_K", "Q6_K", "Q8_0"}


def test_it_gives_the_small_models_next_token_mostly(mixed, models):
    """Four bits round: not the same text, but mostly the same next tokens."""
    rows = []
    for path in (models / "tiny-target-a-f16.gguf", mixed):
        with LlamaTarget.open(path, ModelSettings(threads=2), max_rows=64) as model:
            prompt = list(range(300, 364))
            rows.append(model.extend(prompt, len(prompt)).argmax(1))
    assert (rows[0] == rows[1]).mean() > 0.6
