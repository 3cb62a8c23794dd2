"""A drafter swaps adapters without leaving a trace of the old one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from omnidraft.backends.llama import context
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.errors import ModelError
from omnidraft.processes.threads import ThreadChoice
from omnidraft.settings.config import ModelSettings

SETTINGS = ModelSettings(n_ctx=256, threads=1)
IDS = list(range(300, 330))


@pytest.fixture
def drafter(models: Path) -> Iterator[LlamaDrafter]:
    with LlamaDrafter.open(models / "tiny-drafter-f16.gguf", SETTINGS, max_rows=32) as opened:
        yield opened


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


def test_many_swaps_do_not_leak(drafter: LlamaDrafter, write_adapter):
    path = write_adapter("lora.gguf", drafter.info.path, rank=64)  # about 1 MB
    sizes = []
    for _ in range(60):
        drafter.set_adapter(path)
        drafter.extend(IDS[:3], 1)
        sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[19] < 10_000_000


def test_a_step_says_what_a_wide_pass_says_and_leaves_nothing_behind(drafter: LlamaDrafter):
    wide = drafter.extend(IDS, len(IDS)).copy()
    drafter.rewind(0)
    drafter.extend(IDS[:20], 1)
    context = drafter._live()
    for at in range(20, 30):
        assert np.abs(drafter.extend([IDS[at]], 1) - wide[at]).max() < 0.02
        assert (len(drafter.tokens), context.held) == (at + 1, at + 1)
    drafter.rewind(21)
    assert np.abs(drafter.extend(IDS[21:], 9) - wide[21:]).max() < 0.02


def test_a_pass_behind_a_pause_is_told_apart(drafter: LlamaDrafter, monkeypatch: pytest.MonkeyPatch):
    """Others had the caches meanwhile, so that it takes longer says nothing about its threads."""
    kinds, now = [], [2.0**30]

    def clock() -> float:
        now[0] += 2**-10
        return now[0]

    monkeypatch.setattr(context, "perf_counter", clock)
    monkeypatch.setattr(ThreadChoice, "passed", lambda _self, kind, _seconds: kinds.append(kind))
    for pause in (0.0, 0.0, 0.5, 0.0):
        now[0] += pause
        drafter.extend([1], 1)
    assert kinds == [(1, True), (1, False), (1, True), (1, False)]
