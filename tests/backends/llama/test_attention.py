"""The kernel of attention: chosen by what passes take, only where the two differ, and without a trace in the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.backends.llama import model as llama_model
from omnidraft.backends.llama.attention import flash_is_quicker, is_open
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.settings.config import ModelSettings

SETTINGS = ModelSettings(threads=1, n_ctx=512)


def taken(flash: dict[int, float], other: dict[int, float]):
    return lambda is_flash, rows: (flash if is_flash else other)[rows]


@pytest.mark.parametrize(
    ("flash", "other", "drafts", "expected"),
    [
        ({1: 0.6, 5: 1.8}, {1: 1.0, 5: 1.0}, False, True),
        ({1: 0.6, 5: 1.8}, {1: 1.0, 5: 1.0}, True, False),
        ({1: 0.5, 5: 1.5}, {1: 1.0, 5: 1.0}, True, True),
        ({1: 0.97, 5: 1.0}, {1: 1.0, 5: 1.0}, False, False),
    ],
)
def test_without_drafts_one_row_decides_with_drafts_several_do_too(flash, other, drafts, expected):
    flash, other = ({n: s / 100 for n, s in table.items()} for table in (flash, other))
    assert flash_is_quicker(taken(flash, other), drafts) is expected


def test_a_model_slow_to_try_keeps_what_it_has_and_wide_heads_are_not_tried():
    asked = []
    assert not flash_is_quicker(lambda flash, rows: asked.append(flash) or 2.0, drafts=False)
    assert True not in asked
    assert is_open(32)
    assert not is_open(64)


@pytest.mark.parametrize("flash", [True, False])
def test_a_target_takes_the_quicker_kernel_and_says_the_same_with_it(models, monkeypatch, flash):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", SETTINGS) as target:
        ids = np.flatnonzero(target.vocabulary.ordinary)[:40].tolist()
        before = target.extend(ids, 3).copy()
        monkeypatch.setattr(llama_model, "flash_is_quicker", lambda seconds_of, drafts: flash)
        monkeypatch.setattr(llama_model, "processors_are_free", lambda: False)
        target.suit(drafts=True)
        assert not target._context.flash
        monkeypatch.setattr(llama_model, "processors_are_free", lambda: True)
        target.suit(drafts=True)
        assert target._context.flash is flash
        assert target.tokens == []
        np.testing.assert_allclose(target.extend(ids, 3), before, atol=0.03)
        target.rewind(30)
        assert target.extend(ids[30:], 1).shape[0] == 1


@pytest.mark.parametrize("given", [{"exact": "bits"}, {"kv_type": "q8_0"}])
def test_where_there_is_only_one_kernel_nothing_is_tried(models, monkeypatch, given):
    monkeypatch.setattr(llama_model, "flash_is_quicker", lambda *_: pytest.fail("tried"))
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", replace(SETTINGS, **given)) as target:
        target.suit(drafts=False)
        assert target._context.flash
