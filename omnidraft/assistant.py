"""One profile, one target and the drafter, behind one lock.

The assistant loads and unloads models, pairs drafter and target through their vocabularies, answers one conversation
at a time as typed events, and commits what the n-gram cache learned once per answer. Pages and the command line sit
on top of it; it knows neither.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.base import LanguageModel
from omnidraft.backends.grammar import Grammar
from omnidraft.backends.llama_cpp import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.templates import ChatTemplate
from omnidraft.chats import ChatStore
from omnidraft.config import AppSettings, CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.decoding.events import Event, Finished, Notice, Token
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.measure import step_seconds
from omnidraft.decoding.near_tie import batch_difference
from omnidraft.engine import Continued, Engine, Memory, Message
from omnidraft.errors import ModelError, OmniDraftError, StorageError
from omnidraft.learning.collector import Pairing
from omnidraft.learning.learner import Learner
from omnidraft.learning.serving import (
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
from omnidraft.paths import DataHome
from omnidraft.profiles.forget import Forgotten, forget_everything_from, forget_from
from omnidraft.settings_file import load_settings
from omnidraft.speed_store import PairSpeed, SpeedStore
from omnidraft.vocab import PairMap, Translator, Vocabulary
from omnidraft.vocab.ngram_cache import NgramCache

CAPTURE = 48  # top ids kept per position for learning
_SAMPLE = "The quick brown fox counts 1, 2, 3 and then says: hello there, how are you today?"


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished answer as listeners (learning, metrics) get it. tokens carry the captured distributions."""

    chat: str | None
    messages: Sequence[Message]
    tokens: Sequence[Token]
    finished: Finished
    temperature: float = 1.0


class Busy(OmniDraftError):
    """Another answer is being written."""


class Assistant:
    """All public methods may be called from any thread; one answer runs at a time.

    learn: answers to named conversations are kept for the drafter to learn from, in quiet moments, in a process of its
    own (`learner` tells and does everything about it). ephemeral: nothing that is said leaves a trace on disk.
    """

    def __init__(
        self, home: DataHome, profile: str = "default", *, ephemeral: bool = False, learn: bool = False
    ) -> None:
        self.home = home
        self.profile = home.profile(profile)
        self._settings, self.warnings = load_settings(self.profile.settings)
        self.engine: Engine | None = None
        self.pair: PairMap | None = None
        self.cache: NgramCache | None = None
        self.listeners: list[Callable[[Answered], None]] = []
        self._ephemeral = ephemeral
        self._learn = learn and not ephemeral
        self._speed = PairSpeed(SpeedStore(home.cache / "speed.json"))
        self._drafter: LlamaDrafter | None = None
        self._drafter_as: tuple[Path, ModelSettings] | None = None  # what it was opened with
        self._choice: Choice | None = None  # what the drafter drafts with
        self._adapter: Path | str = NO_ADAPTER  # what was asked for
        self._lock = threading.Lock()
        self._shelf = Shelf(self.profile.adapters, self.profile.root / MERGED)
        self.learner = Learner(
            self.profile, home.cache, self._shelf, lambda: self._settings.learning, self._serve, active=self._learn,
            why_not="" if self._learn else "Nothing is learned here: answers leave no trace.",
        )  # fmt: skip

    @property
    def settings(self) -> AppSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: AppSettings) -> None:
        self._settings = settings
        self.learner.settings_changed()

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
        adapter: Path | str | None = None,
    ) -> list[str]:
        """Load `target`, and `drafter` beside it (None: decode plainly). Returns sentences worth showing.

        adapter: a GGUF LoRA; AUTO: what was learned for this drafter and vocabulary; NO_ADAPTER: the drafter as it
        came; None: AUTO for an assistant that learns. What is loaded stays loaded if anything of the new cannot be: the
        error says why.
        """
        model = model or self.settings.model
        adapter = adapter or (AUTO if self._learn else NO_ADAPTER)
        with self._lock:
            opened = open_target(target, model)
            try:
                engine = Engine(opened, ChatTemplate.from_model(opened.info, opened.vocabulary))
                self._keep_learned()
                self._pair(engine, drafter, model, cache or self.settings.cache, adapter)
            except BaseException:
                opened.close()
                raise
            if self.engine is not None:
                self.engine.target.model.close()
            self.engine = engine
            self._speed.of(target, drafter, model)
            self._recall_speed()
            if drafter is not None and not engine.memory.knowledge:
                engine.memory = Memory.with_cost(engine.measured())
            if self._choice is not None:
                load_heads(self._choice, engine.memory.knowledge)
            self._adapter = adapter
            self._tell_learner()
            _settle_in()
            return list(opened.notices)

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

    def _recall_speed(self) -> None:
        self._speed.recall(self._choice.cost_key if self._choice else None, self.engine.memory.knowledge)

    def _keep_learned(self) -> None:
        """Keep what was measured of the pair, and the acceptance heads with their adapter."""
        if self.engine is not None and not self._ephemeral:
            self._speed.keep(self.engine.memory.knowledge)
            if self._choice is not None:
                save_heads(self._choice, self.engine.memory.knowledge)

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
        grammar: Grammar | None = None,
    ) -> Iterator[Event]:
        """Events of one answer; closing the generator or calling `stop` ends it early. Busy if not `wait`ing.

        With `continued` the answer goes on from there; listeners, who want whole answers, do not hear of it.
        `grammar` is what the answer must follow.
        """
        if not self._lock.acquire(blocking=wait):
            raise Busy("Another answer is being written; stop it or wait for it.")
        try:
            self.learner.answer_begins()
            sampling, wanted = sampling or self.settings.sampling, bool(self.listeners) or self.learner.wants_answers
            events = self._engine().answer(
                messages,
                sampling,
                draft or self.settings.draft,
                capture=CAPTURE if wanted and continued is None else 0,
                source=chat,
                continued=continued,
                grammar=grammar,
            )
            yield from events if continued is not None else self._followed(events, messages, chat, sampling)
            if (failure := self._commit()) is not None:
                yield Notice(failure)
        finally:
            try:
                self._commit()
            finally:
                self._lock.release()
                self.learner.answer_ends()

    def _commit(self) -> str | None:
        """Keep what the n-gram cache learned; a sentence if that failed (the next answer tries again)."""
        try:
            if self.cache is not None:
                self.cache.commit()
        except StorageError as error:
            return str(error)
        return None

    def _followed(
        self, events: Iterator[Event], messages: Sequence[Message], chat: str | None, sampling: SamplingSettings
    ) -> Iterator[Event]:
        tokens: list[Token] = []
        try:
            for event in events:
                if isinstance(event, Token):
                    tokens.append(event)
                yield event
                if isinstance(event, Finished):
                    for listener in (*self.listeners, self.learner.take):
                        listener(Answered(chat, messages, tokens, event, sampling.temperature))
        finally:
            events.close()

    def forget(self, store: ChatStore, chat: str) -> Forgotten:
        """Remove a conversation and all that was learned from it; `store` is the open store of conversations.

        Adapter versions trained on it are dropped, not retrained. Busy while an answer is being written.
        """
        with self._learning_closed():
            return forget_from(self.profile, store, chat)

    def forget_everything(self, store: ChatStore) -> Forgotten:
        """Remove everything of the profile but its settings. Busy while an answer is being written."""
        with self._learning_closed():
            return forget_everything_from(self.profile, store)

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

    def _exchange(self, choice: Choice) -> None:
        """Swap at once, whatever file it takes."""
        opened = None
        if choice.file != self._drafter_as[0]:
            opened, choice = open_choice(choice, self._drafter_as[1], self.pair.drafter)
        if (old := self._swap(choice, opened)) is not None:
            old.close()

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

    def stop(self) -> None:
        """Interrupt the running answer, also while the prompt is being read."""
        if (engine := self.engine) is not None:
            engine.cancel()

    def close(self) -> None:
        """End learning, free the models and close the cache. Harmless when repeated."""
        self.stop()
        self.learner.close()
        self.unload()

    def unload(self) -> None:
        """Free the models and close the cache; `load` brings them back. Harmless when repeated."""
        self.stop()
        with self._lock:
            self._keep_learned()
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
            self._drafter = self._drafter_as = self._choice = None

    def _close_cache(self) -> None:
        if self.cache is not None:
            self.cache.close()
            self.cache = None


def _settle_in() -> None:
    """Take what was just loaded out of the garbage collector's rounds: going through it takes 10 to 100 ms, and would
    fall into the middle of an answer."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
