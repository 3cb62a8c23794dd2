"""The drafter's side of an assistant: opened, paired with the target, given what was learned, exchanged live.

`Assistant` adds the target, answering and the lock they share. It knows nothing of when anything is learned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omnidraft.app.speed_store import PairSpeed, SpeedStore
from omnidraft.backends.llama_cpp import LlamaDrafter
from omnidraft.backends.templates import ChatTemplate
from omnidraft.config import AppSettings, CacheSettings, ModelSettings
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.measure import step_seconds
from omnidraft.engine import Engine
from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.serving import (
    AUTO,
    MERGED,
    NO_ADAPTER,
    Choice,
    Shelf,
    load_heads,
    open_choice,
    put_on,
    save_heads,
)
from omnidraft.learning.learner import Learner
from omnidraft.learning.material.collector import Pairing
from omnidraft.paths import DataHome, ProfilePaths
from omnidraft.vocab import PairMap, Translator, Vocabulary
from omnidraft.vocab.ngram_cache import NgramCache


class Busy(OmniDraftError):
    """Another answer is being written."""


class DrafterSide:
    """engine, pair, cache: what is loaded; learner: tells and does everything about learning. One lock for all."""

    home: DataHome
    profile: ProfilePaths
    settings: AppSettings
    _ephemeral: bool

    def __init__(self, learn: bool) -> None:
        self.engine: Engine | None = None
        self.pair: PairMap | None = None
        self.cache: NgramCache | None = None
        self._learn = learn
        self._speed = PairSpeed(SpeedStore(self.home.cache / "speed.json"))
        self._drafter: LlamaDrafter | None = None
        self._drafter_as: tuple[Path, ModelSettings] | None = None  # what it was opened with
        self._choice: Choice | None = None  # what the drafter drafts with
        self._adapter: Path | str = NO_ADAPTER  # what was asked for
        self._lock = threading.Lock()
        self._shelf = Shelf(self.profile.adapters, self.profile.root / MERGED)
        self.learner = Learner(
            self.profile, self.home.cache, self._shelf, lambda: self.settings.learning, self._serve, active=self._learn,
            why_not="" if self._learn else "Nothing is learned here: answers leave no trace.",
        )  # fmt: skip

    def _pair(
        self, engine: Engine, drafter: Path | None, model: ModelSettings, cache: CacheSettings, adapter: Path | str
    ) -> None:
        """Give `engine` its drafter. What was loaded before goes only when nothing can fail any more."""
        if drafter is None:
            self._take(None, None, None, None, None)
            return
        same = self._choice is not None and self._choice.drafter == drafter
        with ExitStack() as undo:
            vocabulary = self.pair.drafter if same and self.pair else Vocabulary.from_gguf(drafter)
            pair = PairMap.build(vocabulary, engine.target.model.vocabulary, self.home.cache)
            choice = self._choose(drafter, pair, adapter)
            kept = self._drafter if self._drafter_as == (choice.file, model) else None
            if kept is None:
                opened, choice = open_choice(choice, model, vocabulary)
                undo.push(opened)
            template = ChatTemplate.from_model((kept or opened).info, vocabulary)
            ngrams = self._open_cache(pair, cache)
            if ngrams is not None:
                undo.callback(ngrams.close)
            choice = put_on(kept or opened, choice)
            undo.pop_all()
        self._take(kept or opened, (choice.file, model), choice, pair, ngrams)
        engine.pair_drafter(self._drafter, template, Translator(pair, ngrams))

    def _choose(self, drafter: Path, pair: PairMap, adapter: Path | str) -> Choice:
        if adapter == AUTO:
            return self._shelf.choose(drafter, pair.target.fingerprint, self.settings.learning.scope)
        if adapter == NO_ADAPTER:
            return Choice(drafter)
        return Choice(drafter, "file", adapter=Path(adapter))

    def _open_cache(self, pair: PairMap, settings: CacheSettings) -> NgramCache | None:
        if not settings.enabled:
            return None
        if self.cache is not None:
            self.cache.commit()  # it may be the same table
        return NgramCache.open(None if self._ephemeral else self.profile.ngrams, pair, settings)

    def _take(
        self,
        drafter: LlamaDrafter | None,
        opened_with: tuple[Path, ModelSettings] | None,
        choice: Choice | None,
        pair: PairMap | None,
        cache: NgramCache | None,
    ) -> None:
        """Hold these from now on and release what was held."""
        if drafter is not self._drafter:
            self._close_drafter()
        self._close_cache()
        self._drafter, self._drafter_as, self._choice = drafter, opened_with, choice
        self.pair, self.cache = pair, cache

    def _tell_learner(self) -> None:
        if self._choice is None or self._adapter != AUTO:
            self.learner.unpaired()
        else:
            template = self.engine.drafter.template
            self.learner.paired(Pairing(self.pair, template, self.engine.target.model.name, self._choice))

    def _serve(self) -> bool:
        """Draft with what the store says now; False while an answer is being written. For the learner."""
        pair, served, opened_with = self.pair, self._choice, self._drafter_as
        if pair is None or served is None:
            return True
        choice, opened, step = self._choose(served.drafter, pair, AUTO), None, None
        if choice.serves_like(served) and choice.file == opened_with[0]:
            return True
        self._keep_learned()
        if choice.file != opened_with[0]:  # get it ready while the other one still drafts
            opened, choice = open_choice(choice, opened_with[1], pair.drafter)
            step = step_seconds(opened)
        if not self._lock.acquire(timeout=0.1):
            if opened is not None:
                opened.close()
            return False
        try:
            if self._choice is served and self.engine is not None and self.engine.drafter is not None:
                opened = self._swap(choice, opened, step)
        finally:
            self._lock.release()
            if opened is not None:
                opened.close()
        if choice.is_merged:
            self._shelf.drop_merged(keep=choice.file)
        return True

    def _swap(
        self, choice: Choice, opened: LlamaDrafter | None = None, step: float | None = None
    ) -> LlamaDrafter | None:
        """Draft with `choice` from now on: on the drafter as it is, or on one `opened` for it, which takes `step`
        seconds a step. Returns the drafter that is no longer needed."""
        engine, drafter, old = self.engine, opened or self._drafter, None
        choice = put_on(drafter, choice)
        if opened is not None:
            engine.drafter.model, old = opened, self._drafter
            self._drafter, self._drafter_as = opened, (choice.file, self._drafter_as[1])
        engine.drafter.committed = []
        costs_differ = choice.cost_key != self._choice.cost_key
        self._choice = choice
        if costs_differ:
            self._recall_speed()
            for known in engine.memory.knowledge.values():
                known.cost.step = step = step or step_seconds(drafter, 3)
        load_heads(choice, engine.memory.knowledge)
        self.learner.serving(choice)
        return old

    def _exchange(self, choice: Choice) -> None:
        """Swap at once, whatever file it takes."""
        opened = None
        if choice.file != self._drafter_as[0]:
            opened, choice = open_choice(choice, self._drafter_as[1], self.pair.drafter)
        if (old := self._swap(choice, opened)) is not None:
            old.close()

    def _recall_speed(self) -> None:
        self._speed.recall(self._choice.cost_key if self._choice else None, self.engine.memory.knowledge)

    def _keep_learned(self) -> None:
        """Keep what was measured of the pair, and the acceptance heads with their adapter."""
        if self.engine is not None and not self._ephemeral:
            self._speed.keep(self.engine.memory.knowledge)
            if self._choice is not None:
                save_heads(self._choice, self.engine.memory.knowledge)

    @contextmanager
    def _learning_closed(self) -> Iterator[None]:
        """Hold nothing of what was said or learned, in files or memory, and go on with what the files say then."""
        if not self._lock.acquire(blocking=False):
            raise Busy("An answer is being written; stop it or wait for it.")
        try:
            self.learner.close()
            cache = self.cache.settings if self.cache is not None else None
            self._close_cache()
            self._keep_learned()
            if self._choice is not None and self._choice.version is not None:
                self._exchange(Choice(self._choice.drafter))
            try:
                yield
            finally:
                if self.engine is not None:
                    self._go_on(cache)
        finally:
            self._lock.release()

    def _go_on(self, cache: CacheSettings | None) -> None:
        self.engine.forget()
        self.engine.memory.lookup = SuffixLookup()
        if self.pair is None:
            return
        self.cache = self._open_cache(self.pair, cache) if cache is not None else None
        self.engine.translator = Translator(self.pair, self.cache)
        if self._adapter == AUTO:
            self._exchange(self._choose(self._choice.drafter, self.pair, AUTO))
        self._tell_learner()

    def _close_drafter(self) -> None:
        if self._drafter is not None:
            self._drafter.close()
            self._drafter = self._drafter_as = self._choice = None

    def _close_cache(self) -> None:
        if self.cache is not None:
            self.cache.close()
            self.cache = None
