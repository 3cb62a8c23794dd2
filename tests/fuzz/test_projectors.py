"""Projectors from a stranger: what a child lets pass is opened here, and this process lives."""

import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.pictures import FIRST
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import ModelSettings
from tests.backends.seeing import PROJECTORS, needs_eyes, noise, vision_model
from tests.fuzz.cases import damaged, fuzz

SETTINGS = ModelSettings(n_ctx=512, threads=1)


@needs_eyes
@fuzz(6)
@given(st.integers(0, 2**48).map(random.Random))
def test_damaged_projectors_end_nothing_but_a_child(tmp_path_factory, by):
    kind = by.choice(sorted(PROJECTORS))
    folder = tmp_path_factory.getbasetemp() / f"damaged-{kind}"
    model, projector = vision_model(folder, kind)
    whole = projector.read_bytes()
    within = None if by.random() < 0.2 else read_header(projector).data_start
    # Not among the temporary files of the tests, which are trusted: nothing would be tried.
    with TemporaryDirectory() as stranger, LlamaTarget.open(model, SETTINGS) as target, suppress(OmniDraftError):
        broken = Path(stranger) / projector.name
        broken.write_bytes(damaged(whole, by, within))
        target.open_eyes(broken)
        target.extend([5, *target.eyes.ids(noise(1)), 6], 1)
        assert max(target.tokens) >= FIRST
