"""The drift run of a profile, in a process of its own, so that it survives closing the page. The latest is kept as long
as the app runs; what it wrote goes with its process."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from omnidraft.errors import SettingsError
from omnidraft.lab.drift import Plan, Point
from omnidraft.processes.children import LineChild
from omnidraft.storage.paths import DataHome, ProfilePaths, make_folder
from omnidraft.storage.scratch import Scratch, sweep
from omnidraft.storage.vault import with_keys

log = logging.getLogger("omnidraft.ui")
_PREFIX = "run-"


@dataclass(slots=True)
class Shown:
    """A run as it stands. status: "running", "stopped", "failed" or "finished"; doing: what is under way, in words."""

    plan: Plan
    points: list[Point] = field(default_factory=list)
    status: str = "running"
    doing: str = "starting"
    error: str = ""

    @property
    def total(self) -> int:
        return self.plan.schedule.total

    @property
    def seconds_left(self) -> float:
        """Prompts still to come, times the mean time of those so far."""
        done = len(self.points)
        return (self.total - done) * sum(point.seconds for point in self.points) / done if done else 0.0


class DriftLab:
    """latest: the run under way, or the last one."""

    def __init__(self, home: DataHome, profile: ProfilePaths) -> None:
        self.latest: Shown | None = None
        self._home, self._folder = home, profile.root / "drift"
        self._child: LineChild | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, plan: Plan) -> None:
        """SettingsError while another run is under way."""
        with self._lock:
            if self.running:
                raise SettingsError("A drift run is under way; stop it first.")
            self.latest = shown = Shown(plan)
            make_folder(self._folder)
            sweep(self._folder, _PREFIX)
            place = Scratch(_PREFIX, self._folder)
            self._child = LineChild("omnidraft.lab.drift", str(self._home.root), str(place.path))
            self._child.say(with_keys(json.dumps(asdict(plan)) + "\n", self._folder, ("drift",)))
            self._thread = threading.Thread(
                target=self._follow, args=(self._child, shown, place), name="drift", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End at once; the interrupted prompt does not count."""
        if self.running and self._child is not None:
            self._child.say("stop\n")

    def close(self) -> None:
        """End the run under way."""
        self.stop()
        if self._thread is None or self._child is None:
            return
        self._thread.join(10)
        if self.running:
            self._child.kill()
            self._thread.join()

    def _follow(self, child: LineChild, shown: Shown, place: Scratch) -> None:
        with place:
            for line in child.lines():
                with suppress(ValueError):
                    event = json.loads(line)
                    shown.error = event.get("failed", "")
                    if "index" in event:
                        shown.points.append(Point(**event))
                    shown.doing = f"loading {event['target']}" if "index" not in event and "target" in event else ""
            code, said = child.ended(), child.last_words(8000)
        if code and not shown.error:
            log.error("the drift run ended with %s:\n%s", code, said)
            shown.error = "Something went wrong inside the program; its log has the details."
        done = len(shown.points) == shown.total
        shown.status = "failed" if shown.error else "finished" if done else "stopped"
