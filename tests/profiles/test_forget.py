"""Forgetting leaves no file made from what is forgotten, also when it is repeated behind an interruption."""

from __future__ import annotations

from omnidraft.learning.replay import ReplayStore
from omnidraft.learning.serving import MERGED
from omnidraft.profiles.forget import forget_chat

from .conftest import record


def test_a_merged_drafter_goes_even_if_its_version_went_before_an_interruption(home):
    paths = home.profile("default")
    with ReplayStore(paths.replay) as replay:
        replay.add(record(0))
    merged = paths.root / MERGED / "drafter" / "v000001.gguf"
    merged.parent.mkdir(parents=True)
    merged.write_bytes(b"weights that know")
    gone = forget_chat(home, "default", "chat 0")
    assert (gone.answers, gone.adapters) == (1, 0)
    assert not merged.exists()
