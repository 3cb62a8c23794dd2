"""A drift run on a thread of its own, so that it survives closing the page. One at a time per profile.

The runner stores its state after every prompt; this only keeps it going and says how it stands.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from omnidraft.bench import drift
from omnidraft.bench.drift import DriftRun, Loading, Step
from omnidraft.bench.drift_schedule import Schedule
from omnidraft.bench.drift_store import Options, RunState, RunStore, runs_folder
from omnidraft.errors import OmniDraftError, SettingsError
from omnidraft.paths import DataHome, ProfilePaths

log = logging.getLogger("omnidraft.ui")


class DriftLab:
    """The runs of one profile. `seconds_left` and `doing` describe the one under way."""

    def __init__(self, home: DataHome, profile: ProfilePaths) -> None:
        self.store = RunStore(runs_folder(profile))
        self.error = ""
        self.doing = ""
        self.seconds_left = 0.0
        self._home = home
        self._run: DriftRun | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def current(self) -> str | None:
        """The run that is under way, or was last."""
        return self._run.state.id if self._run is not None else None

    def state(self, run: str | None) -> RunState | None:
        """How a run stands: the living one as it is, others from disk; None for an unknown one."""
        if run is None:
            return None
        if self._run is not None and self._run.state.id == run:
            return self._run.state
        try:
            return self.store.load(run)
        except OmniDraftError:
            return None

    def start(self, schedule: Schedule, targets: Mapping[str, Path], drafter: Path, options: Options) -> str:
        """Begin a run and return its id. SettingsError while another one is under way."""
        with self._lock:
            self._must_be_idle()
            return self._go(drift.start(self._home, self.store.folder, schedule, targets, drafter, options))

    def resume(self, run: str) -> str:
        with self._lock:
            self._must_be_idle()
            return self._go(drift.resume(self._home, self.store.folder, run))

    def pause(self) -> None:
        if self._run is not None:
            self._run.pause()

    def stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def delete(self, run: str) -> None:
        """Remove a run that is not under way."""
        with self._lock:
            if self.running and self.current == run:
                raise SettingsError("This run is under way; stop it first.")
            self.store.delete(run)
            if self.current == run:
                self._run = None

    def close(self) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join(10)

    def _go(self, run: DriftRun) -> str:
        self._run, self.error, self.doing, self.seconds_left = run, "", "", 0.0
        self._thread = threading.Thread(target=self._follow, args=(run,), name="drift", daemon=True)
        self._thread.start()
        return run.state.id

    def _follow(self, run: DriftRun) -> None:
        try:
            for event in run.events():
                if isinstance(event, Loading):
                    self.doing = f"loading {event.target}"
                elif isinstance(event, Step):
                    self.doing, self.seconds_left = "", event.seconds_left
        except OmniDraftError as error:
            self.error = str(error)
        except Exception:
            log.exception("the drift run ended with a defect")
            self.error = "Something went wrong inside the program; its log has the details."

    def _must_be_idle(self) -> None:
        if self.running:
            raise SettingsError("A drift run is under way; pause or stop it first.")
