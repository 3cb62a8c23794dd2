"""Server-side state of one profile: shared by all its browser tabs and outliving every one of them.

A session holds the profile's assistant and the answer being written. Pages hold nothing that a reload could lose.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from omnidraft.assistant import Assistant
from omnidraft.chats import ChatStore, Conversation
from omnidraft.cli.defaults import choose_drafter, choose_target
from omnidraft.config import AppSettings, DraftSettings, SamplingSettings, changed, requires_reload
from omnidraft.errors import ModelError, OmniDraftError, StorageError
from omnidraft.paths import DataHome
from omnidraft.settings_file import save_settings
from omnidraft.vocab.ngram_cache import NgramCache
from ui.answer_job import AnswerJob
from ui.baseline import Baselines
from ui.drift_job import DriftLab

log = logging.getLogger("omnidraft.ui")


class Session:
    """One profile at work. Methods may be called from any thread."""

    def __init__(self, home: DataHome, profile: str, target: str | None, drafter: str | None) -> None:
        self.assistant = Assistant(home, profile, learn=True)
        self.profile = profile
        self.job: AnswerJob | None = None
        self.loaded: Path | None = None
        self.store = ChatStore(self.assistant.profile.chats)
        self.baseline = Baselines()
        self.drift = DriftLab(home, self.assistant.profile)
        self.switched: dict[str, str] = {}  # chat -> what its next answer should say about a change of models
        self.idle_unloads = 0  # how often the models were freed because nobody asked anything
        self._used = time.monotonic()
        self._current: str | None = None
        self._wanted = (target, drafter)
        self._lock = threading.RLock()

    @property
    def settings(self) -> AppSettings:
        return self.assistant.settings

    @property
    def busy(self) -> bool:
        return self.job is not None and not self.job.over

    def target_path(self) -> Path:
        """The target that is loaded, or that the first question will load."""
        return self.loaded or choose_target(self._wanted[0], self.assistant.home, self.assistant.settings)

    def ensure_loaded(self) -> list[str]:
        """Load the chosen target if none is; returns what the load has to say."""
        with self._lock:
            return [] if self.loaded else self.load(self.target_path())

    def load(self, target: Path) -> list[str]:
        """Make `target` the model that answers, with the profile's drafter. Raises ModelError; the old one stays."""
        with self._lock:
            self._must_be_idle()
            drafter = choose_drafter(self._wanted[1], self.assistant.home, self.assistant.settings)
            notices = self.assistant.load(target, drafter)
            self.loaded = target
            self._used = time.monotonic()
            log.info("%s: loaded %s", self.profile, target.name)
            return notices

    def drafter_path(self) -> Path | None:
        """The drafter that drafts, or would; None if there is none."""
        try:
            return choose_drafter(self._wanted[1], self.assistant.home, self.settings)
        except OmniDraftError:
            return None

    def choose_drafter(self, drafter: Path) -> str:
        """Draft with another model from now on; ModelError if the pair cannot be loaded, then nothing changed."""
        with self._lock:
            self._must_be_idle()
            if self.loaded is not None:
                self.assistant.load(self.loaded, drafter)
            self._wanted = (self._wanted[0], None)
            self.apply(drafter=str(drafter))
            return f"{drafter.stem} drafts from now on."

    def unload(self) -> None:
        """Free the models; the next question loads them again."""
        with self._lock:
            self._must_be_idle()
            self.assistant.unload()
            self.loaded = None

    def unload_if_idle(self) -> bool:
        """Free the models if nobody has asked anything for as long as the settings say."""
        minutes = self.settings.unload_after
        with self._lock:
            if self.busy or self.loaded is None or self.assistant.learner.status().state == "training":
                self._used = time.monotonic()
                return False
            if not minutes or time.monotonic() - self._used < minutes * 60:
                return False
            self.unload()
            self.idle_unloads += 1
            log.info("%s: unloaded after %g idle minutes", self.profile, minutes)
            return True

    def choose(self, target: Path) -> list[str]:
        """Load `target`, unless it is loaded, and remember it as the profile's."""
        with self._lock:
            notices = [] if self.loaded == target else self.load(target)
            self.apply(target=str(target))
            return notices

    def apply(self, **values: object) -> AppSettings:
        """Change settings by dotted name and keep them; SettingsError if a value is refused."""
        with self._lock:
            settings = changed(self.assistant.settings, **values)
            save_settings(self.assistant.profile.settings, settings)
            self.assistant.settings = settings
            return settings

    def change(self, name: str, value: object) -> str:
        """Change one setting, live where that is possible; says in a sentence what happened."""
        with self._lock:
            before = self.settings
            after = self.apply(**{name: value})
            if name.startswith("cache.") and self.assistant.cache is not None:
                try:
                    self.change_cache(lambda ngrams: ngrams.resize(after.cache))
                except ModelError:
                    return "kept; the cache follows when the model is loaded again, for it is at work now."
                return "kept and applied."
            if (requires_reload(before, after) or name == "cache.enabled") and self.loaded is not None:
                return "kept; load the model again for it to take effect."
            return "kept."

    def change_cache(self, act: Callable[[NgramCache], object]) -> None:
        """Do something to the open n-gram cache. ModelError while an answer is using it or if there is none."""
        with self._lock:
            self._must_be_idle()
            if self.assistant.cache is None:
                raise ModelError("No model is loaded, so no cache is open; ask something first.")
            act(self.assistant.cache)
            self.assistant.cache.commit()

    def answer(
        self, messages: list[dict[str, str]], sampling: SamplingSettings, draft: DraftSettings, **more: object
    ) -> AnswerJob:
        """Start an answer; ModelError while another one is being written."""
        with self._lock:
            self._must_be_idle()
            self.ensure_loaded()
            self._used = time.monotonic()
            self.job = AnswerJob(self.assistant, messages, sampling, draft, **more).start()
            return self.job

    def chat(self, wanted: str | None = None) -> Conversation:
        """The conversation a page shows: the wanted one, else the one shown last, else the latest, else a new one."""
        with self._lock:
            for name in (wanted, self._current):
                if name is not None:
                    with contextlib.suppress(StorageError):
                        return self.show(name)
            latest = self.store.conversations(1)
            return self.show(latest[0].id) if latest else self.new_chat()

    def show(self, chat: str) -> Conversation:
        """Remember `chat` as the one a reload comes back to."""
        found = self.store.get(chat)
        self._current = found.id
        return found

    def new_chat(self) -> Conversation:
        """An empty conversation; one that is empty already is taken instead of piling them up."""
        with self._lock:
            latest = self.store.conversations(1)
            if latest and not self.store.path(latest[0].id) and not latest[0].named:
                return self.show(latest[0].id)
            return self.show(self.store.create().id)

    def stop(self) -> None:
        if (job := self.job) is not None:
            job.stop()

    def prepare(self) -> None:
        """Load what is needed to answer. ModelError if that fails or an answer is being written."""
        with self._lock:
            self._must_be_idle()
            self.ensure_loaded()

    def target_name(self) -> str:
        target = self.assistant.target
        return target.name if target is not None else ""

    def why_plain(self, draft: DraftSettings | None = None) -> str | None:
        """Why drafting is off under `draft`; None if it is on or nothing is loaded yet."""
        engine = self.assistant.engine
        return engine.why_plain(draft or self.settings.draft) if engine is not None else None

    def close(self) -> None:
        self.stop()
        if self.job is not None:
            self.job.join(10)
        self.drift.close()
        self.assistant.close()
        self.store.close()

    def _must_be_idle(self) -> None:
        if self.busy:
            raise ModelError("An answer is still being written; stop it or wait for it.")
