"""Server-side state: one session per profile, shared by all its browser tabs and outliving every one of them.

A session holds the profile's assistant and the answer being written. Pages hold nothing that a reload could lose.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from omnidraft.assistant import Assistant
from omnidraft.cli.defaults import choose_drafter, choose_target
from omnidraft.config import AppSettings, DraftSettings, SamplingSettings
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.paths import DataHome
from omnidraft.settings_file import save_settings
from ui.answer_job import AnswerJob

log = logging.getLogger("omnidraft.ui")


class Session:
    """One profile at work. Methods may be called from any thread."""

    def __init__(self, home: DataHome, profile: str, target: str | None, drafter: str | None) -> None:
        self.assistant = Assistant(home, profile)
        self.profile = profile
        self.job: AnswerJob | None = None
        self.loaded: Path | None = None
        self.messages: list[dict[str, str]] = []
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
        return self.loaded or choose_target(self._wanted[0], self.assistant)

    def ensure_loaded(self) -> list[str]:
        """Load the chosen target if none is; returns what the load has to say."""
        with self._lock:
            return [] if self.loaded else self.load(self.target_path())

    def load(self, target: Path) -> list[str]:
        """Make `target` the model that answers, with the profile's drafter. Raises ModelError; the old one stays."""
        with self._lock:
            self._must_be_idle()
            drafter = choose_drafter(self._wanted[1], self.assistant)
            notices = self.assistant.load(target, drafter)
            self.loaded = target
            return notices

    def choose(self, target: Path) -> list[str]:
        """Load `target` and remember it as the profile's."""
        notices = self.load(target)
        self.apply(**{"target": str(target)})
        return notices

    def apply(self, **values: object) -> AppSettings:
        """Change settings by dotted name and keep them; SettingsError if a value is refused."""
        from omnidraft.config import changed

        with self._lock:
            settings = changed(self.assistant.settings, **values)
            save_settings(self.assistant.profile.settings, settings)
            self.assistant.settings = settings
            return settings

    def answer(
        self, messages: list[dict[str, str]], sampling: SamplingSettings, draft: DraftSettings, **more: object
    ) -> AnswerJob:
        """Start an answer; ModelError while another one is being written."""
        with self._lock:
            self._must_be_idle()
            self.ensure_loaded()
            self.job = AnswerJob(self.assistant, messages, sampling, draft, **more).start()
            return self.job

    def keep(self, job: AnswerJob) -> None:
        if job.text:
            self.messages.append({"role": "assistant", "content": job.text})

    def stop(self) -> None:
        if (job := self.job) is not None:
            job.stop()

    def why_plain(self, draft: DraftSettings | None = None) -> str | None:
        """Why drafting is off under `draft`; None if it is on or nothing is loaded yet."""
        engine = self.assistant.engine
        return engine.why_plain(draft or self.settings.draft) if engine is not None else None

    def close(self) -> None:
        self.stop()
        if self.job is not None:
            self.job.join(10)
        self.assistant.close()

    def _must_be_idle(self) -> None:
        if self.busy:
            raise ModelError("An answer is still being written; stop it or wait for it.")


class Sessions:
    """The sessions of all profiles, made when a profile is first used."""

    def __init__(self, home: DataHome, default: str, target: str | None = None, drafter: str | None = None) -> None:
        self.home = home
        self.default = default
        self._models = (target, drafter)
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()

    def get(self, profile: str | None = None) -> Session:
        name = profile or self.default
        with self._lock:
            if name not in self._open:
                self._open[name] = Session(self.home, name, *self._models)
            return self._open[name]

    def close(self) -> None:
        with self._lock:
            for session in self._open.values():
                try:
                    session.close()
                except OmniDraftError as error:
                    log.warning("closing %s: %s", session.profile, error)
            self._open.clear()
