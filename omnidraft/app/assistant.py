"""One profile, one target and the drafter, behind one lock.

The assistant loads and unloads models, pairs drafter and target through their vocabularies, answers one conversation
at a time as typed events, and commits what the n-gram cache learned once per answer. Pages and the command line sit
on top of it; it knows neither.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from omnidraft.app.embedding import embed
from omnidraft.app.loaded_pair import LoadedPair, LoadRequest
from omnidraft.backends.base import LanguageModel
from omnidraft.chats import ChatStore
from omnidraft.decoding.events import Event, Finished, Notice, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.errors import ModelError, OmniDraftError, StorageError
from omnidraft.learning.adapters.serving import AUTO, NO_ADAPTER
from omnidraft.learning.material.record import CAPTURE, Answered
from omnidraft.learning.scheduler import Scheduler
from omnidraft.learning.store import LearningStore
from omnidraft.processes import system
from omnidraft.profiles.forget import Forgotten, forget_everything_from, forget_from
from omnidraft.profiles.uploads import clear_uploads
from omnidraft.prompting.grammar_state import forget_vocabulary, whole_vocabulary
from omnidraft.settings.config import AppSettings, CacheSettings, ModelSettings
from omnidraft.settings.file import load_settings
from omnidraft.storage.paths import DataHome


class Busy(OmniDraftError):
    """Somebody else has the models."""


class Assistant:
    """All public methods may be called from any thread; one answer runs at a time.

    loaded: the models and all that belongs to them. learn: answers to named conversations are kept for the drafter to
    learn from (`learned`: what is kept, and what came of it), in quiet moments (`learner` knows when), in a process of
    its own. ephemeral: nothing that is said leaves a trace on disk. named: the target that the command line asked for,
    offered as long as the program runs.
    """

    def __init__(
        self, home: DataHome, profile: str = "default", *, ephemeral: bool = False, learn: bool = False,
        named: str | None = None,
    ) -> None:  # fmt: skip
        self.home = home
        self.profile = home.profile(profile)
        self._settings, self.warnings = load_settings(self.profile.settings)
        self.named = named
        self.loaded = LoadedPair(self.profile, home.cache, ephemeral=ephemeral)
        self._models = threading.Lock()  # had by whoever loads, answers, swaps an adapter
        self._resizing = False  # whether the cache is to take up other settings
        self._learns = learn and not ephemeral
        why_not = "" if self._learns else "Nothing is learned here: answers leave no trace."
        self.learned = LearningStore(self.profile, home.cache, self.loaded.adapters, why_not)
        self.learner = Scheduler(self.learned, lambda: self.settings.learning, self._serve)

    @property
    def settings(self) -> AppSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: AppSettings) -> None:
        self._settings = settings
        self.learner.wake()

    @property
    def engine(self) -> Engine | None:
        return self.loaded.engine

    @property
    def target(self) -> LanguageModel | None:
        return self.loaded.target

    @property
    def target_name(self) -> str:
        return self.target.name if self.target is not None else ""

    def load(
        self,
        target: Path,
        drafter: Path | None,
        model: ModelSettings | None = None,
        cache: CacheSettings | None = None,
        *,
        adapter: Path | str | None = None,
        projector: Path | None = None,
    ) -> list[str]:
        """Load `target`, and `drafter` beside it (None: decode plainly). Returns sentences worth showing.

        adapter: a GGUF LoRA; AUTO: what was learned for this drafter and vocabulary; NO_ADAPTER: the drafter as it
        came; None: AUTO for an assistant that learns. What is loaded stays loaded if anything of the new cannot be: the
        error says why. projector: what the target sees pictures through; None: what the settings name, else what lies
        beside it.
        """
        adapter = adapter or (AUTO if self._learns else NO_ADAPTER)
        with self._held():
            settings = self.settings
            self.learner.free_memory()
            asked = LoadRequest(
                target, drafter, model or settings.model, cache or settings.cache, adapter,
                settings.templates, projector, settings.projectors,
            )  # fmt: skip
            notices = self.loaded.load(asked)
            self._tell_learner()
            _settle_in()
            # The first answer under a grammar does not wait for it.
            vocabulary = self.need_engine().target.model.vocabulary
            threading.Thread(target=whole_vocabulary, args=(vocabulary,), name="vocabulary", daemon=True).start()
            return notices

    def _tell_learner(self) -> None:
        if (pairing := self.loaded.pairing) is not None:
            self.learner.paired(pairing)
        else:
            self.learner.unpaired()

    def _serve(self) -> bool:
        """Draft with what the store says now; False while an answer is being written. For the scheduler."""
        made = self.loaded.prepare()
        if made is None:
            return True
        try:
            with self._held(timeout=0.1):
                if self.loaded.take_up(made) and self.loaded.choice is not None:
                    self.learner.serving(self.loaded.choice)
        except Busy:
            return False
        finally:
            made.close()
        if made.choice.merged is not None:
            self.loaded.adapters.drop_merged(keep=made.choice.merged)
        return True

    @property
    def capture(self) -> int:
        """How many of the target's top ids learning wants with each token of an answer; 0 where nothing is learned."""
        return CAPTURE if self.learner.wants_answers else 0

    def answer(self, request: AnswerRequest) -> Generator[Event, None, None]:
        """Events of one answer, once nobody else has the models; closing the generator or calling `stop` ends it early.

        Learning, which wants whole answers to somebody, does not hear of one that goes on, nor of one that captures
        nothing.
        """
        tokens: list[Token] | None = [] if request.capture and request.continued is None else None
        with self._answering():
            try:
                with closing(self.need_engine().answer(request)) as events:
                    for event in events:
                        if tokens is not None and isinstance(event, Token):
                            tokens.append(event)
                        yield event
                        if tokens is not None and isinstance(event, Finished):
                            self.learner.take(Answered(request, tokens, event))
                if (failure := self._commit()) is not None:
                    yield Notice(failure)
            finally:
                self._commit()

    def embed(self, texts: Sequence[str | Sequence[int]], stopped: Callable[[], bool]) -> tuple[np.ndarray, int]:
        """See `embedding.embed`; with the loaded target, once nobody else uses it."""
        with self._answering():
            return embed(self.need_engine().target.model, texts, stopped)

    @contextmanager
    def _held(self, timeout: float = -1) -> Iterator[None]:
        """Nobody else has the models in the block. Busy if somebody has them for so many seconds; -1: waits."""
        if not self._models.acquire(timeout=timeout):
            raise Busy("An answer is being written; stop it or wait for it.")
        try:
            yield
        finally:
            self._models.release()
            if self._resizing:
                self.resize_cache()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Held, for what somebody waits for: training stands still."""
        with self._held(), self.learner.answering():
            yield

    def _commit(self) -> str | None:
        """Keep what the n-gram cache learned; a sentence if that failed (the next answer tries again)."""
        try:
            if self.loaded.cache is not None:
                self.loaded.cache.commit()
        except StorageError as error:
            return str(error)
        return None

    def resize_cache(self) -> bool:
        """Have the open n-gram cache take up the settings: now (True), or once nobody is at work with it."""
        self._resizing = True
        if not self._models.acquire(blocking=False):
            return False
        try:
            self._resizing = False
            if self.loaded.cache is not None:
                self.loaded.cache.resize(self.settings.cache)
        finally:
            self._models.release()
        return True

    def forget(self, store: ChatStore, chat: str) -> Forgotten:
        """Remove a conversation and all that was learned from it; `store` is the open store of conversations.

        Adapter versions trained on it are dropped, not retrained. Busy while an answer is being written.
        """
        with self._learning_closed():
            return forget_from(self.profile, store, chat)

    def forget_everything(self, store: ChatStore) -> Forgotten:
        """Remove everything of the profile but its settings. Busy while an answer is being written."""
        with self._learning_closed():
            clear_uploads(self.home)
            return forget_everything_from(self.profile, store)

    def stop(self) -> None:
        """Interrupt the running answer, also while the prompt is being read."""
        if (engine := self.engine) is not None:
            engine.cancel()

    def close(self) -> None:
        """End learning, free the models and close the cache. Harmless when repeated."""
        self.stop()
        self.learner.unpaired()
        self.learned.close()
        self.unload()

    def unload(self) -> None:
        """Free the models and close the cache; `load` brings them back. Harmless when repeated."""
        self.stop()
        with self._held():
            self.learner.free_memory()
            if self.engine is not None:
                forget_vocabulary(self.engine.target.model.vocabulary)
            self.loaded.close()
            _settle_in()  # others may be answering
            system.release_memory()

    @contextmanager
    def _learning_closed(self) -> Iterator[None]:
        """Hold nothing of what was said or learned, in files or memory, and go on with what the files say then."""
        with self._held(timeout=0):
            cache = self.loaded.cache.settings if self.loaded.cache is not None else None
            self.learner.unpaired()
            try:
                with self.learned.let_go():
                    self.loaded.let_go()
                    yield
            finally:
                self.loaded.go_on(cache)
                if self.loaded.pair is not None:
                    self._tell_learner()

    def need_engine(self) -> Engine:
        """ModelError if no model is loaded: there is one in a session's turn."""
        if self.engine is None:
            raise ModelError("No model is loaded; choose a target first.")
        return self.engine


def _settle_in() -> None:
    """Collect what a load or an unload left, and take all else out of the garbage collector's rounds: going through it
    takes 10 to 100 ms, and would fall into the middle of an answer."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
