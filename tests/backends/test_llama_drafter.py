"""A drafter swaps adapters without leaving a trace of the old one, and shows its hidden state when asked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.base import DraftModel
from omnidraft.backends.llama_cpp import LlamaDrafter
from omnidraft.config import ModelSettings
from omnidraft.errors import ModelError

SETTINGS = ModelSettings(n_ctx=256, n_batch=32, threads=1)
IDS = list(range(300, 330))


@pytest.fixture
def drafter(models: Path) -> Iterator[LlamaDrafter]:
    with LlamaDrafter.open(models / "tiny-drafter-f16.gguf", SETTINGS, max_rows=32) as opened:
        yield opened


@pytest.fixture
def watched(models: Path) -> Iterator[LlamaDrafter]:
    """The same drafter with its hidden state on."""
    with LlamaDrafter.open(models / "tiny-drafter-f16.gguf", SETTINGS, with_hidden=True, max_rows=32) as opened:
        yield opened


def test_it_is_a_draft_model(drafter: LlamaDrafter):
    assert isinstance(drafter, DraftModel)
    assert drafter.adapter is None


def test_an_adapter_changes_the_logits_and_clearing_it_restores_them(drafter: LlamaDrafter, write_adapter):
    path = write_adapter("lora.gguf", drafter.info.path)
    plain = drafter.extend(IDS, 4).copy()
    drafter.set_adapter(path)
    assert drafter.adapter == str(path)
    assert drafter.tokens == []
    adapted = drafter.extend(IDS, 4).copy()
    assert np.abs(adapted - plain).max() > 0.5
    drafter.set_adapter(None)
    assert drafter.adapter is None
    np.testing.assert_array_equal(drafter.extend(IDS, 4), plain)


def test_adapters_follow_each_other(drafter: LlamaDrafter, write_adapter):
    paths = [write_adapter(f"{seed}.gguf", drafter.info.path, rank=4 + seed, seed=seed) for seed in range(3)]
    first = []
    for path in paths:
        drafter.set_adapter(path)
        first.append(drafter.extend(IDS, 1).copy())
    for path, expected in zip(paths[::-1], first[::-1], strict=True):
        drafter.set_adapter(path)
        np.testing.assert_array_equal(drafter.extend(IDS, 1), expected)


def test_a_scale_of_zero_is_no_adapter(drafter: LlamaDrafter, write_adapter):
    plain = drafter.extend(IDS, 1).copy()
    path = write_adapter("lora.gguf", drafter.info.path)
    drafter.set_adapter(path, scale=0.0)
    np.testing.assert_allclose(drafter.extend(IDS, 1), plain, atol=1e-4)
    drafter.set_adapter(path, scale=0.5)
    assert np.abs(drafter.extend(IDS, 1) - plain).max() > 0.1


def test_an_adapter_is_the_product_it_claims_to_be(drafter: LlamaDrafter, write_adapter, models: Path):
    """On the output weights alone, logits change by scale x B A h with h the hidden state."""
    with LlamaDrafter.open(drafter.info.path, SETTINGS, with_hidden=True) as watched:
        plain = watched.extend(IDS, 1)[0].copy()
        hidden = watched.hidden().copy()
        kept = {}
        path = write_adapter("out.gguf", drafter.info.path, only=("output.weight",), change=kept.update)
        watched.set_adapter(path)
        change = kept["output.weight.lora_b"] @ (kept["output.weight.lora_a"] @ hidden)
        np.testing.assert_allclose(watched.extend(IDS, 1)[0] - plain, change, atol=0.05)


def test_a_misfit_is_refused_and_everything_stays(drafter: LlamaDrafter, write_adapter, models: Path):
    good = write_adapter("good.gguf", drafter.info.path)
    bad = write_adapter("bad.gguf", models / "tiny-target-a-f16.gguf")
    drafter.set_adapter(good)
    expected = drafter.extend(IDS, 1).copy()
    with pytest.raises(ModelError, match="does not fit"):
        drafter.set_adapter(bad)
    assert drafter.adapter == str(good)
    assert drafter.tokens == IDS
    drafter.rewind(20)
    np.testing.assert_allclose(drafter.extend(IDS[20:], 1), expected, atol=0.03)


def test_a_missing_adapter_is_refused(drafter: LlamaDrafter, tmp_path: Path):
    with pytest.raises(ModelError, match="does not exist"):
        drafter.set_adapter(tmp_path / "none.gguf")


def test_the_adapters_file_may_go_once_loaded(drafter: LlamaDrafter, write_adapter):
    path = write_adapter("lora.gguf", drafter.info.path)
    drafter.set_adapter(path)
    expected = drafter.extend(IDS, 1).copy()
    path.unlink()
    drafter.rewind(0)
    np.testing.assert_array_equal(drafter.extend(IDS, 1), expected)


def test_closing_with_an_adapter_set(models: Path, write_adapter):
    path = models / "tiny-drafter-f16.gguf"
    drafter = LlamaDrafter.open(path, SETTINGS)
    drafter.set_adapter(write_adapter("lora.gguf", path))
    drafter.close()
    drafter.close()
    with pytest.raises(ModelError, match="closed"):
        drafter.set_adapter(None)


def test_many_swaps_do_not_leak(drafter: LlamaDrafter, write_adapter):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")

    def resident() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    path = write_adapter("lora.gguf", drafter.info.path, rank=64)  # about 1 MB
    sizes = []
    for _ in range(60):
        drafter.set_adapter(path)
        drafter.extend(IDS[:3], 1)
        sizes.append(resident())
    assert sizes[-1] - sizes[19] < 10_000


def test_no_hidden_state_unless_asked_for(drafter: LlamaDrafter):
    drafter.extend(IDS, 1)
    assert drafter.hidden() is None


def test_the_hidden_state_does_not_change_the_logits(drafter: LlamaDrafter, watched: LlamaDrafter):
    for ids, rows in ((IDS, 1), (IDS[:5], 5), (IDS[:3], 1), (IDS[:1], 1), (IDS[:20], 0), (IDS[:20], 7)):
        np.testing.assert_allclose(watched.extend(ids, rows), drafter.extend(ids, rows), atol=0.03)
    assert watched.tokens == drafter.tokens


def test_the_hidden_state_is_that_of_the_last_id(watched: LlamaDrafter):
    for length in (1, 5, 30):
        watched.rewind(0)
        watched.extend(IDS[:length], 1)
        together = watched.hidden().copy()
        watched.rewind(0)
        for id in IDS[:length]:
            watched.extend([id], 1)
        assert together.shape == (watched.info.width,)
        assert not watched.hidden().flags.owndata
        np.testing.assert_allclose(watched.hidden(), together, atol=0.05)


def test_the_hidden_state_can_be_switched(drafter: LlamaDrafter):
    plain = drafter.extend(IDS, 1).copy()
    for switch in (True, False, True):
        drafter.with_hidden = switch
        drafter.rewind(0)
        np.testing.assert_allclose(drafter.extend(IDS, 1), plain, atol=0.03)
        assert (drafter.hidden() is not None) == switch


def test_the_hidden_state_is_none_without_rows(watched: LlamaDrafter):
    watched.extend(IDS, 0)
    assert watched.hidden() is None


def test_logits_are_the_output_weights_times_the_hidden_state(watched: LlamaDrafter):
    """So the hidden state is the one behind the final norm."""
    import gguf

    reader = gguf.GGUFReader(watched.info.path)
    output = next(tensor.data for tensor in reader.tensors if tensor.name == "output.weight").astype(np.float32)
    logits = watched.extend(IDS, 1)[0]
    np.testing.assert_allclose(output @ watched.hidden(), logits, atol=0.05)
