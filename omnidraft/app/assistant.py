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
from omnidraft.learning.learner import Learner
from omnidraft.learning.material.record import CAPTURE, Answered
from omnidraft.profiles.forget import Forgotten, forget_everything_from, forget_from
from omnidraft.profiles.uploads import clear_uploads
from omnidraft.prompting.grammar_state import whole_vocabulary
from omnidraft.settings.config import AppSettings, CacheSettings, ModelSettings
from omnidraft.settings.file import load_settings
from omnidraft.storage.paths import DataHome


class Busy(OmniDraftError):
    """Another answer is being written."""


class _OneAtATime:
    """Who has the models. Looking and taking are one step."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = self._answering = False
        self._left_to_do: Callable[[], object] | None = None

    def take(self, answering: bool = False, refusal: str | None = None, timeout: float | None = None) -> bool:
        """Whether it was free in time. answering: for what may take long, an answer or embeddings; Busy with `refusal`,
        if one is given, while it is taken for that. Whoever loads models or swaps an adapter is waited for."""
        with self._changed:
            refused = lambda: refusal is not None and self._answering  # noqa: E731
            if not self._changed.wait_for(lambda: not self._taken or refused(), timeout):
                return False
            if self._taken:
                raise Busy(refusal)
            self._taken, self._answering = True, answering
            self._changed.notify_all()  # who will not wait for an answer need not look again
            return True

    def leave(self) -> None:
        with self._changed:
            act, self._left_to_do = self._left_to_do, None
            try:
                if act is not None:
                    act()
            finally:
                self._taken = self._answering = False
                self._changed.notify_all()

    def soon(self, act: Callable[[], object]) -> bool:
        """Whether `act` was done at once; else whoever has the models does it when leaving them."""
        with self._changed:
            if self._taken:
                self._left_to_do = act
            else:
                act()
            return not self._taken

    @contextmanager
    def held(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.leave()


class Assistant:
    """All public methods may be called from any thread; one answer runs at a time.

    loaded: the models and all that belongs to them. learn: answers to named conversations are kept for the drafter to
    learn from, in quiet moments, in a process of its own (`learner` tells and does everything about it). ephemeral:
    nothing that is said leaves a trace on disk. named: the target that the command line asked for, offered as long as
    the program runs.
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
        self._models = _OneAtATime()
        self._learns = learn and not ephemeral
        self.learner = Learner(
            self.profile, home.cache, self.loaded.adapters, lambda: self.settings.learning, self._serve,
            active=self._learns, why_not="" if self._learns else "Nothing is learned here: answers leave no trace.",
        )  # fmt: skip

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
        with self._models.held():
            settings = self.settings
            self.learner.process.let_go()
            asked = LoadRequest(
                target, drafter, model or settings.model, cache or settings.cache, adapter,
                settings.templates, projector, settings.projectors,
            )  # fmt: skip
            notices = self.loaded.load(asked)
            self._tell_learner()
            _settle_in()
            # The first answer under a grammar does not wait for it.
            vocabulary = self._engine().target.model.vocabulary
            threading.Thread(target=whole_vocabulary, args=(vocabulary,), name="vocabulary", daemon=True).start()
            return notices

    def _tell_learner(self) -> None:
        if (pairing := self.loaded.pairing) is not None:
            self.learner.paired(pairing)
        else:
            self.learner.unpaired()

    def _serve(self) -> bool:
        """Draft with what the store says now; False while an answer is being written. For the learner."""
        made = self.loaded.prepare()
        if made is None:
            return True
        try:
            if not self._models.take(timeout=0.1):
                return False
            try:
                if self.loaded.take_up(made) and self.loaded.choice is not None:
                    self.learner.serving(self.loaded.choice)
            finally:
                self._models.leave()
        finally:
            made.close()
        if made.choice.merged is not None:
            self.loaded.adapters.drop_merged(keep=made.choice.merged)
        return True

    @property
    def capture(self) -> int:
        """How many of the target's top ids learning wants with each token of an answer; 0 where nothing is learned."""
        return CAPTURE if self.learner.wants_answers else 0

    def answer(self, request: AnswerRequest, *, wait: bool = True) -> Generator[Event, None, None]:
        """Events of one answer; closing the generator or calling `stop` ends it early. Busy, if not `wait`ing, while
        another one is written.

        The learner, who wants whole answers to somebody, does not hear of one that goes on, nor of one that captures
        nothing.
        """
        self._models.take(True, None if wait else "Another answer is being written; stop it or wait for it.")
        tokens: list[Token] | None = [] if request.capture and request.continued is None else None
        try:
            self.learner.answer_begins()
            with closing(self._engine().answer(request)) as events:
                for event in events:
                    if tokens is not None and isinstance(event, Token):
                        tokens.append(event)
                    yield event
                    if tokens is not None and isinstance(event, Finished):
                        self.learner.take(Answered(request, tokens, event))
            if (failure := self._commit()) is not None:
                yield Notice(failure)
        finally:
            try:
                self._commit()
            finally:
                self._release()

    def _release(self) -> None:
        self._models.leave()
        self.learner.answer_ends()

    def embed(self, texts: Sequence[str | Sequence[int]], stopped: Callable[[], bool]) -> tuple[np.ndarray, int]:
        """See `embedding.embed`; with the loaded target, while nobody else uses it. Busy if somebody does."""
        self._models.take(True, "An answer is being written; wait for it.")
        try:
            self.learner.answer_begins()
            return embed(self._engine().target.model, texts, stopped)
        finally:
            self._release()

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
        return self._models.soon(self._resize_cache)

    def _resize_cache(self) -> None:
        if self.loaded.cache is not None:
            self.loaded.cache.resize(self.settings.cache)

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
        self.learner.close()
        self.unload()

    def unload(self) -> None:
        """Free the models and close the cache; `load` brings them back. Harmless when repeated."""
        self.stop()
        with self._models.held():
            self.learner.process.let_go()
            self.loaded.close()

    @contextmanager
    def _learning_closed(self) -> Iterator[None]:
        """Hold nothing of what was said or learned, in files or memory, and go on with what the files say then."""
        if not self._models.take(timeout=0):
            raise Busy("An answer is being written; stop it or wait for it.")
        try:
            cache = self.loaded.cache.settings if self.loaded.cache is not None else None
            try:
                with self.learner.let_go():
                    self.loaded.let_go()
                    yield
            finally:
                self.loaded.go_on(cache)
                if self.loaded.pair is not None:
                    self._tell_learner()
        finally:
            self._models.leave()

    def _engine(self) -> Engine:
        if self.engine is None:
            raise ModelError("No model is loaded; choose a target first.")
        return self.engine


def _settle_in() -> None:
    """Take what was just loaded out of the garbage collector's rounds: going through it takes 10 to 100 ms, and would
    fall into the middle of an answer."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
