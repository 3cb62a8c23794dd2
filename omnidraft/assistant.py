"""One profile, one target and the drafter, behind one lock.

The assistant loads and unloads models, pairs drafter and target through their vocabularies, answers one conversation
at a time as typed events, and commits what the n-gram cache learned once per answer. Pages and the command line sit
on top of it; it knows neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.base import LanguageModel
from omnidraft.backends.llama_cpp import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.templates import ChatTemplate
from omnidraft.config import AppSettings, CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.decoding.events import Event, Finished, Notice, Token
from omnidraft.decoding.near_tie import batch_difference
from omnidraft.engine import Continued, Engine, Memory, Message
from omnidraft.errors import ModelError, OmniDraftError, StorageError
from omnidraft.paths import DataHome
from omnidraft.settings_file import load_settings
from omnidraft.speed_store import SpeedStore, speed_key
from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache

KINDS = ("greedy", "sampled")
CAPTURE = 48  # top ids kept per position for learning
_SAMPLE = "The quick brown fox counts 1, 2, 3 and then says: hello there, how are you today?"


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished answer as listeners (learning, metrics) get it. tokens carry the captured distributions."""

    chat: str | None
    messages: Sequence[Message]
    tokens: Sequence[Token]
    finished: Finished


class Busy(OmniDraftError):
    """Another answer is being written."""


class Assistant:
    """All public methods may be called from any thread; one answer runs at a time."""

    def __init__(self, home: DataHome, profile: str = "default", *, ephemeral: bool = False) -> None:
        self.home = home
        self.profile = home.profile(profile)
        self.settings: AppSettings
        self.settings, self.warnings = load_settings(self.profile.settings)
        self.engine: Engine | None = None
        self.pair: PairMap | None = None
        self.cache: NgramCache | None = None
        self.listeners: list[Callable[[Answered], None]] = []
        self._ephemeral = ephemeral
        self._speed = SpeedStore(home.cache / "speed.json")
        self._speed_keys: dict[str, str] = {}
        self._drafter: LlamaDrafter | None = None
        self._drafter_as: tuple[Path, ModelSettings] | None = None  # what it was opened with
        self._lock = threading.Lock()

    @property
    def target(self) -> LanguageModel | None:
        return self.engine.target.model if self.engine else None

    def load(
        self,
        target: Path,
        drafter: Path | None,
        model: ModelSettings | None = None,
        cache: CacheSettings | None = None,
        *,
        adapter: Path | None = None,
    ) -> list[str]:
        """Load `target`, and `drafter` beside it (None: decode plainly). Returns sentences worth showing.

        What is loaded stays loaded if anything of the new cannot be: the error says why.
        """
        model = model or self.settings.model
        with self._lock:
            opened = open_target(target, model)
            try:
                engine = Engine(opened, ChatTemplate.from_model(opened.info, opened.vocabulary))
                self._pair(engine, drafter, model, cache or self.settings.cache, adapter)
            except BaseException:
                opened.close()
                raise
            self._keep_speed()
            if self.engine is not None:
                self.engine.target.model.close()
            self.engine = engine
            self._recall_speed(target, drafter, model, adapter)
            if drafter is not None and not engine.memory.knowledge:
                engine.memory = Memory.with_cost(engine.measured())
            return list(opened.notices)

    def _pair(
        self, engine: Engine, drafter: Path | None, model: ModelSettings, cache: CacheSettings, adapter: Path | None
    ) -> None:
        """Give `engine` its drafter. What was loaded before goes only when nothing can fail any more."""
        if drafter is None:
            self._take(None, None, None, None)
            return
        kept = self._drafter if self._drafter_as == (drafter, model) else None
        with ExitStack() as undo:
            opened = kept or undo.enter_context(LlamaDrafter.open(drafter, model))
            template = ChatTemplate.from_model(opened.info, opened.vocabulary)
            pair = PairMap.build(opened.vocabulary, engine.target.model.vocabulary, self.home.cache)
            ngrams = self._open_cache(pair, cache)
            if ngrams is not None:
                undo.callback(ngrams.close)
            opened.set_adapter(str(adapter) if adapter else None)
            undo.pop_all()
        self._take(opened, (drafter, model), pair, ngrams)
        engine.pair_drafter(opened, template, Translator(pair, ngrams))

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
        pair: PairMap | None,
        cache: NgramCache | None,
    ) -> None:
        """Hold these from now on and release what was held."""
        if drafter is not self._drafter:
            self._close_drafter()
        self._close_cache()
        self._drafter, self._drafter_as, self.pair, self.cache = drafter, opened_with, pair, cache

    def _recall_speed(self, target: Path, drafter: Path | None, model: ModelSettings, adapter: Path | None) -> None:
        """What earlier sessions measured about this pair; what is missing is measured now."""
        named = str(adapter) if adapter else None
        self._speed_keys = {kind: speed_key(target, drafter, model, named, kind == "greedy") for kind in KINDS}
        for kind, key in self._speed_keys.items():
            if (known := self._speed.load(key)) is not None:
                self.engine.memory.knowledge[kind] = known

    def _keep_speed(self) -> None:
        if self.engine is None or self._ephemeral:
            return
        with suppress(StorageError):  # it can be measured again, so a full disk shall not stand in the way
            for kind, knowledge in self.engine.memory.knowledge.items():
                self._speed.save(self._speed_keys[kind], knowledge)

    def measure_near_ties(self) -> None:
        """Find out how far this target's logits move with the pass width, so that near-ties can be counted."""
        with self._lock:
            target = self._engine().target.model
            if target.can_rewind:
                ids = target.vocabulary.encode(_SAMPLE, at_start=True)
                self._engine().tolerance = 2 * batch_difference(target, ids)
                self._engine().target.committed = []

    def answer(
        self,
        messages: Sequence[Message],
        sampling: SamplingSettings | None = None,
        draft: DraftSettings | None = None,
        *,
        chat: str | None = None,
        wait: bool = True,
        continued: Continued | None = None,
    ) -> Iterator[Event]:
        """Events of one answer; closing the generator or calling `stop` ends it early. Busy if not `wait`ing.

        With `continued` the answer goes on from there; listeners, who want whole answers, do not hear of it.
        """
        if not self._lock.acquire(blocking=wait):
            raise Busy("Another answer is being written; stop it or wait for it.")
        try:
            events = self._engine().answer(
                messages,
                sampling or self.settings.sampling,
                draft or self.settings.draft,
                capture=CAPTURE if self.listeners and continued is None else 0,
                source=chat,
                continued=continued,
            )
            yield from events if continued is not None else self._followed(events, messages, chat)
            if (failure := self._commit()) is not None:
                yield Notice(failure)
        finally:
            try:
                self._commit()
            finally:
                self._lock.release()

    def _commit(self) -> str | None:
        """Keep what the n-gram cache learned; a sentence if that failed (the next answer tries again)."""
        try:
            if self.cache is not None:
                self.cache.commit()
        except StorageError as error:
            return str(error)
        return None

    def _followed(self, events: Iterator[Event], messages: Sequence[Message], chat: str | None) -> Iterator[Event]:
        tokens: list[Token] = []
        try:
            for event in events:
                if isinstance(event, Token):
                    tokens.append(event)
                yield event
                if isinstance(event, Finished):
                    for listener in self.listeners:
                        listener(Answered(chat, messages, tokens, event))
        finally:
            events.close()

    def stop(self) -> None:
        """Interrupt the running answer, also while the prompt is being read."""
        if (engine := self.engine) is not None:
            engine.cancel()

    def close(self) -> None:
        """Free the models and close the cache. Harmless when repeated."""
        self.stop()
        with self._lock:
            self._keep_speed()
            if self.engine is not None:
                self.engine.target.model.close()
                self.engine = None
            self._close_drafter()
            self._close_cache()

    def _engine(self) -> Engine:
        if self.engine is None:
            raise ModelError("No model is loaded; choose a target first.")
        return self.engine

    def _close_drafter(self) -> None:
        if self._drafter is not None:
            self._drafter.close()
            self._drafter = self._drafter_as = None

    def _close_cache(self) -> None:
        if self.cache is not None:
            self.cache.close()
            self.cache = None
