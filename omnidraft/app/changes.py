"""What a changed setting does to what is loaded: who takes it up, and what is said then.

What neither waits for a load nor is the open cache's is read when the next answer begins; learning is told of every
change by the assistant. Knows no page.
"""

from __future__ import annotations

from collections.abc import Callable

from omnidraft.settings.config import MAX_CACHE_MB, MOST_ENTRIES, AppSettings, describe
from omnidraft.vocab.ngram_cache import ENTRY_BYTES, MEGABYTE, PIECE_BYTES

WHEN_LOADED_AGAIN = {"cache.enabled", *(setting.name for setting in describe(AppSettings) if setting.rule.reload)}

_ENTRY = ENTRY_BYTES + 2 * PIECE_BYTES  # bytes of a usual entry


def with_it(settings: AppSettings, name: str, value: object) -> dict[str, object]:
    """The setting, and what has to change with it: another unit leaves the cache about as large as it was."""
    now = settings.cache
    if name != "cache.unit" or value == now.unit:
        return {name: value}
    if value == "MB":
        return {name: value, "cache.capacity": min(max(round(now.capacity * _ENTRY / MEGABYTE), 1), MAX_CACHE_MB)}
    return {name: value, "cache.capacity": min(now.capacity * MEGABYTE // _ENTRY, MOST_ENTRIES)}


def take_up(name: str, loaded: bool, resize_cache: Callable[[], bool] | None) -> str:
    """Apply the setting `name`, just changed, as far as that is possible now; what happened, in words.

    loaded: whether a model is, or will be; resize_cache: see `Assistant`, None if no n-gram cache is open.
    """
    if loaded and name in WHEN_LOADED_AGAIN:
        return "kept; load the model again for it to take effect."
    if resize_cache is None or not name.startswith("cache."):
        return "kept."
    return "kept and applied." if resize_cache() else "kept; the cache takes it up as soon as it is not at work."
