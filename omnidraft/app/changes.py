"""What a changed setting does to what is loaded: who takes it up, and what is said then.

Settings that are in neither set are read when the next answer begins; learning is told of every change by the
assistant. Knows no page.
"""

from __future__ import annotations

from collections.abc import Callable

from omnidraft.errors import ModelError
from omnidraft.settings.config import AppSettings, describe
from omnidraft.vocab.ngram_cache import NgramCache

WHEN_LOADED_AGAIN = {"cache.enabled", *(setting.name for setting in describe(AppSettings) if setting.rule.reload)}
BY_THE_OPEN_CACHE = {"cache.capacity", "cache.unit", "cache.policy", "cache.seed"}
ChangeCache = Callable[[Callable[[NgramCache], object]], None]


def take_up(name: str, settings: AppSettings, loaded: bool, change_cache: ChangeCache | None) -> str:
    """Apply the setting `name`, just changed, as far as that is possible now; what happened, in words.

    loaded: whether a model is; change_cache: acts on the open n-gram cache, ModelError while an answer is using it;
    None if there is none.
    """
    if loaded and name in WHEN_LOADED_AGAIN:
        return "kept; load the model again for it to take effect."
    if change_cache is None or name not in BY_THE_OPEN_CACHE:
        return "kept."
    try:
        change_cache(lambda ngrams: ngrams.resize(settings.cache))
    except ModelError:
        return "kept; the cache follows when the model is loaded again, for it is at work now."
    return "kept and applied."


def at_work(_: Callable[[NgramCache], object]) -> None:
    """A `change_cache` for while a model is being loaded."""
    raise ModelError("A model is being loaded.")
