"""The drift runs of a profile, each in a process of its own, so that they survive closing the page. One at a time.

The process stores its state after every prompt; this only starts it, stops it, and says how it stands.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from omnidraft.errors import OmniDraftError, SettingsError, StorageError
from omnidraft.lab import runs as drift
from omnidraft.lab.prompts import load_prompts
from omnidraft.lab.schedule import Schedule
from omnidraft.lab.store import Options, RunState, RunStore, runs_folder
from omnidraft.processes.children import LineChild
from omnidraft.storage.files import put_in, reason
from omnidraft.storage.paths import DataHome, ProfilePaths, make_folder
from omnidraft.storage.vault import vault_of, with_keys

log = logging.getLogger("omnidraft.ui")
UNDER_WAY = ("new", "running")


class DriftLab:
    """The runs of one profile. `doing` describes the one under way."""

    def __init__(self, home: DataHome, profile: ProfilePaths) -> None:
        self.store = RunStore(runs_folder(profile))
        self.error = ""
        self.doing = ""
        self.current: str | None = None  # the run that is under way, or was last
        self._home = home
        self._child: LineChild | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def state(self, run: str | None) -> RunState | None:
        """How a run stands; None for an unknown one."""
        if run is None:
            return None
        with suppress(OmniDraftError):
            return self._as_it_is(self.store.load(run))
        return None

    def runs(self) -> list[RunState]:
        """Every run, the newest first."""
        return [self._as_it_is(state) for state in self.store.runs()]

    def start(self, schedule: Schedule, targets: Mapping[str, Path], drafter: Path, options: Options) -> str:
        """Begin a run and return its id. SettingsError while another one is under way."""
        with self._lock:
            if self.running:
                raise SettingsError("A drift run is under way; stop it first.")
            run = drift.start(self._home, self.store.folder, schedule, targets, drafter, options).state.id
            self.current, self.error, self.doing = run, "", "starting"
            self._child = LineChild("omnidraft.lab.child", str(self._home.root), str(self.store.folder), run)
            if vault_of(self.store.folder) is not None:
                self._child.say(with_keys("{}\n", self.store.folder, ("drift",)))
            self._thread = threading.Thread(target=self._follow, args=(self._child,), name="drift", daemon=True)
            self._thread.start()
            return run

    def stop(self) -> None:
        """End at once; the interrupted prompt does not count."""
        if self.running and self._child is not None:
            self._child.say("stop\n")

    def delete(self, run: str) -> None:
        """Remove a run that is not under way."""
        with self._lock:
            if self.running and self.current == run:
                raise SettingsError("This run is under way; stop it first.")
            self.store.delete(run)
            if self.current == run:
                self.current = None

    def close(self) -> None:
        """End the run under way."""
        self.stop()
        if self._thread is None or self._child is None:
            return
        self._thread.join(10)
        if self.running:
            self._child.kill()
            self._thread.join()

    @property
    def prompt_files(self) -> list[Path]:
        """The prompt files the user added."""
        with suppress(OSError):
            return sorted(path for path in (self.store.folder / "prompts").iterdir() if path.is_file())
        return []

    def add_prompts(self, file: Path) -> Path:
        """Keep a copy of a prompt file. SettingsError or StorageError if it is none."""
        if file.suffix.lower() not in (".jsonl", ".txt"):
            raise SettingsError("Prompt files are .jsonl or .txt, one prompt a line.")
        load_prompts(file)
        folder = self.store.folder / "prompts"
        make_folder(self.store.folder)
        make_folder(folder)
        try:
            copy = folder / file.name.replace(",", "_")
            put_in(file, copy)
            return copy
        except OSError as error:
            raise StorageError(f"{file.name} cannot be kept: {reason(error)}.") from error

    def _as_it_is(self, state: RunState) -> RunState:
        """A run that says it is under way, but is not, was ended with the app."""
        if state.status in UNDER_WAY and not (self.running and self.current == state.id):
            state.status = "stopped"
        return state

    def _follow(self, child: LineChild) -> None:
        for line in child.lines():
            with suppress(ValueError):
                event = json.loads(line)
                self.doing = f"loading {event['loading']}" if "loading" in event else ""
                self.error = event.get("failed", self.error)
        code, said = child.ended(), child.last_words(8000)
        if code and not self.error:
            log.error("the drift run ended with %s:\n%s", code, said)
            self.error = "Something went wrong inside the program; its log has the details."
