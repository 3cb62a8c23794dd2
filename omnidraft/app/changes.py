"""What a changed setting does to what is loaded: who takes it up, and what is said then.

Settings that are in neither set are read when the next answer begins; learning is told of every change by the
assistant. Knows no page.
"""

from __future__ import annotations

from collections.abc import Callable

from omnidraft.settings.config import AppSettings, describe

WHEN_LOADED_AGAIN = {"cache.enabled", *(setting.name for setting in describe(AppSettings) if setting.rule.reload)}
BY_THE_OPEN_CACHE = {"cache.capacity", "cache.unit", "cache.policy", "cache.seed"}


def take_up(name: str, loaded: bool, resize_cache: Callable[[], bool] | None) -> str:
    """Apply the setting `name`, just changed, as far as that is possible now; what happened, in words.

    loaded: whether a model is, or will be; resize_cache: see `Assistant`, None if no n-gram cache is open.
    """
    if loaded and name in WHEN_LOADED_AGAIN:
        return "kept; load the model again for it to take effect."
    if resize_cache is None or name not in BY_THE_OPEN_CACHE:
        return "kept."
    return "kept and applied." if resize_cache() else "kept; the cache takes it up as soon as it is not at work."
