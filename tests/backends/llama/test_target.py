"""What is particular to a llama.cpp target: what is refused, interruptions, cache formats, threads, no memory lost."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.sizes import pass_bytes
from omnidraft.errors import ModelError
from omnidraft.processes import system
from omnidraft.processes.threads import step_threads
from omnidraft.settings.config import ModelSettings
from tests.backends.tiny_models import MODELS, ids_of, ones

SETTINGS = ModelSettings(n_ctx=512, threads=1)
# The kernels for one row and for several round differently; the logits of these models spread over about 10.
TOLERANCE = 0.03


@pytest.fixture
def target(models: Path) -> Iterator[LlamaTarget]:
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", SETTINGS, max_rows=32) as opened:
        yield opened


def test_a_long_prefill_can_be_aborted_and_the_model_used_afterwards(models: Path):
    settings = ModelSettings(n_ctx=1024, threads=1)
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", settings) as target:
        ids = ids_of(target, 1000)
        start = time.perf_counter()
        target.extend(ids, 1)
        whole = time.perf_counter() - start
        expected = target.extend(ids[:10], 1).copy()
        target.rewind(0)
        outcome: list[object] = []

        def prefill() -> None:
            try:
                outcome.append(target.extend(ids, 1))
            except Aborted as error:
                outcome.append(error)

        reader = threading.Thread(target=prefill)
        reader.start()
        time.sleep(whole / 20)
        start = time.perf_counter()
        target.abort()
        reader.join()
        waited = time.perf_counter() - start
        assert isinstance(outcome[0], Aborted)
        assert waited < min(0.2, whole)
        held = len(target.tokens)
        assert held < 1000
        assert target.tokens == ids[:held]
        target.extend(ids[held:], 0)
        np.testing.assert_allclose(target.extend(ids[:10], 1), expected, atol=TOLERANCE)


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0"])
def test_a_quantized_cache_answers_nearly_alike(target: LlamaTarget, models: Path, kv_type: str):
    ids = ids_of(target, 30)
    settings = ModelSettings(n_ctx=512, threads=1, kv_type=kv_type)
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", settings) as small:
        expected, logits = target.extend(ids, 1)[0], small.extend(ids, 1)[0]
        assert np.abs(logits - expected).max() > 0
        assert np.corrcoef(logits, expected)[0, 1] > 0.98
        small.rewind(10)
        np.testing.assert_allclose(small.extend(ids[10:], 1)[0], logits, atol=0.2)


def test_the_context_is_limited_to_what_the_model_was_trained_for(models: Path):
    path = models / "tiny-target-a-f16.gguf"
    with LlamaTarget.open(path, ModelSettings(n_ctx=8192, threads=1)) as target:
        assert target.n_ctx == 1024
        assert "8192 became 1024" in target.notices[0]
    for unasked in (ModelSettings(threads=1), ModelSettings(n_ctx=0, threads=1)):
        with LlamaTarget.open(path, unasked) as target:
            assert target.n_ctx == 1024
            assert target.notices == []


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        LlamaTarget.open(path, SETTINGS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_cannot_be_targets_are_refused(models, shared, tmp_path: Path, write_gguf, write_adapter):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((models / "tiny-target-a-f16.gguf").read_bytes()[:1_000_000])
    assert "cut short" in refusal(cut)
    assert "does not exist" in refusal(tmp_path / "missing.gguf")
    assert "adapter" in refusal(write_adapter("lora.gguf", models / "tiny-drafter-f16.gguf"))
    tensors = {"token_embd.weight": np.zeros((4, 32), np.float32)}
    assert "nothingformer" in refusal(write_gguf("unknown.gguf", "nothingformer", {}, tensors))
    assert "encoder" in refusal(write_gguf("bert.gguf", "bert", {"bert.attention.causal": False}, tensors))
    hollow = refusal(write_gguf("hollow.gguf", "llama", {}, tensors))
    assert "key not found" in hollow or "damaged" in hollow
    assert "without weights" in refusal(shared / "vocabs" / "ggml-vocab-gpt-2.gguf")


def test_opening_and_closing_does_not_leak(models: Path):
    path = models / "tiny-target-a-f16.gguf"
    sizes = []
    for _ in range(30):
        with LlamaTarget.open(path, SETTINGS, max_rows=8) as target:
            target.extend([1, 2, 3], 2)
        system.release_memory()  # or it depends on the moment whether the allocator still has the last model's 20 MB
        sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[9] < 5_000_000  # one model with context is about 25 MB


def test_a_known_vocabulary_is_used_and_anothers_refused(target: LlamaTarget, models: Path):
    with LlamaTarget.open(models / "tiny-target-a2-f16.gguf", SETTINGS, vocabulary=target.vocabulary) as other:
        assert other.vocabulary is target.vocabulary
    with pytest.raises(ModelError, match="6144 logits for 8192 tokens"):
        LlamaTarget.open(models / "tiny-target-b-f16.gguf", SETTINGS, vocabulary=target.vocabulary)


def test_logits_agree_with_transformers(models: Path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        str(models), gguf_file="tiny-target-b-f16.gguf", dtype=torch.float32
    )
    with LlamaTarget.open(models / "tiny-target-b-f16.gguf", SETTINGS, max_rows=50) as target:
        ids = ids_of(target, 50)
        logits = target.extend(ids, 50)
        with torch.no_grad():
            expected = reference(torch.tensor([ids])).logits[0].numpy()
        np.testing.assert_allclose(logits, expected, atol=1e-2)


def test_threads_are_chosen_unless_a_number_was_set(models: Path):
    path = models / "tiny-target-a-f16.gguf"
    with LlamaTarget.open(path, ModelSettings(n_ctx=512, threads=3)) as target:
        for _ in range(50):
            target.extend([5], 1)
        assert target.threads == (3, 3)
    with LlamaTarget.open(path, ModelSettings(n_ctx=512)) as target:
        used, most = target.threads
        assert 1 <= used <= most == step_threads(pass_bytes(target.info))


def test_scales_of_a_matrix_are_no_matrix(write_gguf):
    """llama.cpp places them as if they were multiplied like the matrix whose name they have; scales of one are none."""
    architecture, metadata, tensors = MODELS["llama"]()
    found = []
    for name, more in (("plain", {}), ("scaled", {"blk.0.attn_q.scale": ones(1)})):
        path = write_gguf(f"{name}.gguf", architecture, metadata, tensors | more)
        with LlamaTarget.open(path, ModelSettings(n_ctx=256, threads=1)) as target:
            found.append(target.extend(ids_of(target, 8), 2).copy())
    np.testing.assert_array_equal(*found)
