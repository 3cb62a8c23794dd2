"""The sessions of all profiles: made when a profile is first used, looked after while idle, closed with the app; and
which of them a request belongs to."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from urllib.parse import unquote

from starlette.requests import Request

from omnidraft.app import race_job
from omnidraft.app.hub import Downloads
from omnidraft.app.outlook import draft_with_the_quickest
from omnidraft.app.session import Session
from omnidraft.app.waiting import StillAnswering
from omnidraft.backends.base import Aborted
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.folders import existing
from omnidraft.storage.paths import DataHome

log = logging.getLogger("omnidraft.ui")
IDLE_CHECK = 1.0  # seconds between looks at which models nobody uses


class Sessions:
    """The sessions of all profiles, made when a profile is first used."""

    def __init__(
        self,
        home: DataHome,
        default: str,
        target: str | None = None,
        drafter: str | None = None,
        workers: str | None = None,
        split: str | None = None,
    ) -> None:
        self.home = home
        self.default = default
        self._named = (target, drafter, workers, split)
        self.downloads = Downloads()
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        race_job.sweep()
        threading.Thread(target=self._watch_idle, name="idle", daemon=True).start()

    def get(self, profile: str | None = None) -> Session:
        name = profile or self.default
        with self._lock:
            if name not in self._open:
                self._open[name] = Session(self.home, name, *self._named)
            return self._open[name]

    def drop(self, profile: str) -> None:
        """Close a profile's session, if it is open, so that its files can go."""
        with self._lock:
            if (session := self._open.pop(profile, None)) is not None:
                session.close()

    def _watch_idle(self) -> None:
        while not self._closing.wait(IDLE_CHECK):
            with self._lock:
                sessions = list(self._open.values())
            for session in sessions:
                try:
                    if not unload_if_idle(session):
                        draft_with_the_quickest(session)
                except Aborted:
                    log.info("%s was stopped while it compared drafters.", session.profile)
                except OmniDraftError as error:
                    log.warning("while %s was idle: %s", session.profile, error)

    def end(self) -> None:
        """The program is about to close them: nobody waits for a model that is being loaded."""
        self._closing.set()
        for session in list(self._open.values()):
            session.end()

    def close(self) -> None:
        self.end()
        self.downloads.close()
        with self._lock:
            for session in self._open.values():
                try:
                    session.close()
                except OmniDraftError as error:
                    log.warning("closing %s: %s", session.profile, error)
            self._open.clear()


def unload_if_idle(session: Session) -> bool:
    """Free the models if nobody has asked anything for as long as the settings say."""
    minutes, training = session.settings.unload_after, session.assistant.learner.status().state == "training"
    if session.queue.busy or session.races.running or session.loaded is None or training:
        session.used = time.monotonic()
        return False
    if not minutes or time.monotonic() - session.used < minutes * 60:
        return False
    with contextlib.suppress(StillAnswering):
        session.unload()
        session.idle_unloads += 1
        log.info("%s: unloaded after %g idle minutes", session.profile, minutes)
        return True
    return False


PROFILE_COOKIE = "omnidraft_profile"  # which profile a browser picked


def session_of_request(sessions: Sessions, request: Request) -> Session:
    """The session of the profile that a browser picked, if there is such a one; else that of the default."""
    picked = unquote(request.cookies.get(PROFILE_COOKIE, ""))
    try:
        if picked:
            existing(sessions.home, picked)
    except OmniDraftError:
        picked = ""
    return sessions.get(picked)
