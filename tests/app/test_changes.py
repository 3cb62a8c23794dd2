"""What a changed setting does: whether it waits for the model, reaches the open cache, or for the next answer."""

from __future__ import annotations

import pytest

from omnidraft.app.changes import take_up
from omnidraft.errors import ModelError
from omnidraft.settings.config import AppSettings, CacheSettings, changed, describe


class Cache:
    """An open cache, at work or at rest."""

    def __init__(self, at_work: bool = False) -> None:
        self.at_work, self.applied = at_work, []

    def resize(self, settings: CacheSettings) -> None:
        self.applied.append(settings)

    def change(self, act) -> None:
        if self.at_work:
            raise ModelError("An answer is being written.")
        act(self)


def taken_up(name: str, settings: AppSettings, cache: Cache) -> str:
    return take_up(name, settings, True, cache.change)


def test_only_what_is_fixed_at_loading_asks_for_a_reload():
    told = {s.name: taken_up(s.name, AppSettings(), Cache()) for s in describe(AppSettings)}
    asks = {name for name, words in told.items() if "load the model again" in words}
    assert {"target", "drafter", "model.n_ctx", "model.threads", "cache.enabled"} <= asks
    assert not {n for n in asks if n.startswith(("sampling.", "draft.", "learning."))} | asks & {"theme", "cache.unit"}


def test_without_a_model_everything_is_just_kept():
    assert {take_up(s.name, AppSettings(), False, None) for s in describe(AppSettings)} == {"kept."}


@pytest.mark.parametrize("name", ["cache.capacity", "cache.unit", "cache.policy", "cache.seed"])
def test_the_open_cache_takes_its_settings_at_once_unless_it_is_at_work(name):
    settings, idle = changed(AppSettings(), **{"cache.capacity": 5}), Cache()
    assert taken_up(name, settings, idle) == "kept and applied."
    assert idle.applied == [settings.cache]
    assert "at work" in taken_up(name, settings, Cache(at_work=True))
