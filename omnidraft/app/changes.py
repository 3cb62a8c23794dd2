"""What a changed setting does to what is loaded: a table from the setting to who takes it up, and what is said then.

Settings that are not in the table are read when the next answer begins; learning is told of every change by the
assistant. Knows no page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from omnidraft.errors import ModelError
from omnidraft.settings.config import AppSettings, describe
from omnidraft.vocab.ngram_cache import NgramCache


class Loaded(Protocol):
    """What changes are applied to; a `Session` is one."""

    @property
    def something_is_loaded(self) -> bool: ...

    @property
    def has_cache(self) -> bool: ...

    def change_cache(self, act: Callable[[NgramCache], object]) -> None:
        """ModelError while an answer is using the cache."""


def _when_loaded_again(loaded: Loaded, settings: AppSettings) -> str:
    return "kept; load the model again for it to take effect." if loaded.something_is_loaded else "kept."


def _by_the_open_cache(loaded: Loaded, settings: AppSettings) -> str:
    if not loaded.has_cache:
        return "kept."
    try:
        loaded.change_cache(lambda ngrams: ngrams.resize(settings.cache))
    except ModelError:
        return "kept; the cache follows when the model is loaded again, for it is at work now."
    return "kept and applied."


TAKEN_UP: dict[str, Callable[[Loaded, AppSettings], str]] = {
    **{setting.name: _when_loaded_again for setting in describe(AppSettings) if setting.rule.reload},
    "cache.enabled": _when_loaded_again,
    "cache.capacity": _by_the_open_cache,
    "cache.unit": _by_the_open_cache,
    "cache.policy": _by_the_open_cache,
    "cache.seed": _by_the_open_cache,
}


def take_up(name: str, loaded: Loaded, settings: AppSettings) -> str:
    """Apply the setting `name`, just changed, as far as that is possible now; what happened, in words."""
    action = TAKEN_UP.get(name)
    return action(loaded, settings) if action is not None else "kept."
