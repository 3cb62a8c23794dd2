"""The kernel of attention: the one for the rows of drafts, or llama.cpp's choice, and no trace of it in the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.settings.config import ModelSettings

SETTINGS = ModelSettings(threads=1, n_ctx=512)


def test_a_target_attends_as_suits_drafts_or_none_and_says_the_same(models):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", SETTINGS) as target:
        ids = np.flatnonzero(target.vocabulary.ordinary)[:40].tolist()
        before = target.extend(ids, 3).copy()
        target.suit(drafts=True)
        assert not target._context.flash
        assert target.tokens == ids
        target.suit(drafts=False)
        assert target._context.flash
        assert target.tokens == []
        np.testing.assert_allclose(target.extend(ids, 3), before, atol=0.03)
        target.rewind(30)
        assert target.extend(ids[30:], 1).shape[0] == 1
        target.suit(drafts=True)
        assert not target._context.flash


@pytest.mark.parametrize("given", [{"exact": "bits"}, {"kv_type": "q8_0"}])
def test_where_there_is_only_one_kernel_it_stays(models, given):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", replace(SETTINGS, **given)) as target:
        target.suit(drafts=True)
        assert target._context.flash
