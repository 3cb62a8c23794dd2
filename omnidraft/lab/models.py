"""The models of a drift run: one target at a time beside the drafter, and the run's own n-gram cache on disk.

Each vocabulary pair has its table in the run's cache file, so a target that comes back finds what it left behind, and
targets of one family share theirs. Nothing of a profile's is read or changed.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.engine import Engine, Memory
from omnidraft.lab.store import Options
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings
from omnidraft.vocab import NgramCache, PairMap, Translator

PLAIN = DraftSettings(enabled=False)


def draft_settings(options: Options) -> DraftSettings:
    if options.draft_length is None:
        return DraftSettings(mode="adaptive")
    return DraftSettings(mode="fixed", length=options.draft_length)


class LoadedTarget:
    """A target with the drafter and the cache of their pair. Close it before the next one is loaded."""

    def __init__(self, target: Path, drafter: LlamaDrafter, options: Options, ngrams: Path, maps: Path) -> None:
        self.path = target
        self.cache: NgramCache | None = None
        self._closing = ExitStack()
        with ExitStack() as opening:
            model = open_target(target, ModelSettings(threads=options.threads))
            opening.callback(model.close)
            self.pair = PairMap.build(drafter.vocabulary, model.vocabulary, maps)
            if options.cache != "off":
                self.cache = NgramCache.open(ngrams, self.pair, CacheSettings(seed=options.cache == "seeded"))
                opening.callback(self.cache.close)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            drafter.rewind(0)
            template = ChatTemplate.from_model(drafter.info, drafter.vocabulary)
            self.engine.pair_drafter(drafter, template, Translator(self.pair, self.cache))
            self._closing = opening.pop_all()
        self.drafting = Memory()
        self.plain = Memory()
        if options.draft_length is None:  # the adaptive length goes by cost; a fixed one has no use for it
            self.drafting = Memory.with_cost(self.engine.measured())

    @property
    def ngrams(self) -> tuple[int, int]:
        """How many n-grams the cache holds, and how many of them are seeds."""
        stats = self.cache.stats() if self.cache is not None else {"entries": 0, "seeded": 0}
        return stats["entries"], stats["seeded"]

    def close(self) -> None:
        self._closing.close()
