"""What a changed setting does: whether it waits for the model, reaches the open cache, or for the next answer."""

from __future__ import annotations

import pytest

from omnidraft.app.changes import take_up
from omnidraft.errors import ModelError
from omnidraft.settings.config import AppSettings, CacheSettings, changed, describe


class Loaded:
    """Models that are loaded, with a cache at work or at rest."""

    something_is_loaded = has_cache = True

    def __init__(self, at_work: bool = False) -> None:
        self.at_work, self.applied = at_work, []

    def resize(self, settings: CacheSettings) -> None:
        self.applied.append(settings)

    def change_cache(self, act) -> None:
        if self.at_work:
            raise ModelError("An answer is being written.")
        act(self)


class Nothing(Loaded):
    something_is_loaded = has_cache = False


def test_only_what_is_fixed_at_loading_asks_for_a_reload():
    asks = {s.name for s in describe(AppSettings) if "load the model again" in take_up(s.name, Loaded(), AppSettings())}
    assert {"target", "drafter", "model.n_ctx", "model.threads", "cache.enabled"} <= asks
    assert not {n for n in asks if n.startswith(("sampling.", "draft.", "learning."))} | asks & {"theme", "cache.unit"}


def test_without_a_model_everything_is_just_kept():
    assert {take_up(s.name, Nothing(), AppSettings()) for s in describe(AppSettings)} == {"kept."}


@pytest.mark.parametrize("name", ["cache.capacity", "cache.unit", "cache.policy", "cache.seed"])
def test_the_open_cache_takes_its_settings_at_once_unless_it_is_at_work(name):
    settings, idle = changed(AppSettings(), **{"cache.capacity": 5}), Loaded()
    assert take_up(name, idle, settings) == "kept and applied."
    assert idle.applied == [settings.cache]
    assert "at work" in take_up(name, Loaded(at_work=True), settings)
