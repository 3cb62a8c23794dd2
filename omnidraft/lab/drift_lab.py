"""The drift run of a profile, in a process of its own, so that it survives closing the page; and any run in figures:
what happened per segment, and plots of acceptance and tokens a pass. Knows no models.

The latest run is kept as long as the app runs; what it wrote goes with its process.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import accumulate, groupby
from operator import attrgetter

from omnidraft.errors import Defect, SettingsError
from omnidraft.format import share
from omnidraft.lab import statistics as stats
from omnidraft.lab.drift import Plan, Point, Schedule
from omnidraft.plot import Frame, Mark, Plot, Series, ceiling
from omnidraft.processes import system
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
        left, timed = self.total - len(self.points), [point.seconds for point in self.points if not point.interrupted]
        return left * sum(timed) / len(timed) if timed else 0.0


class DriftLab:
    """latest: the run under way, or the last one. It stands still while somebody is answered."""

    def __init__(self, home: DataHome, profile: ProfilePaths) -> None:
        self.latest: Shown | None = None
        self._home, self._folder = home, profile.root / "drift"
        self._child: LineChild | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._standing = threading.RLock()  # of what follows
        self._still = 0  # who it stands still for
        self._interrupted = False  # whether it stood still since the last point

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

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """The run's process stands still in the block; times it tells of what it was at then do not count."""
        with self._standing:
            self._still += 1
            if self.running and self._child is not None and self._still == 1:
                self._interrupted = True
                system.suspend(self._child.pid)
        try:
            yield
        finally:
            with self._standing:
                self._still -= 1
                if self._still == 0:
                    self._resume()

    def _resume(self) -> None:
        if self.running and self._child is not None:
            system.resume(self._child.pid)

    def stop(self) -> None:
        """End at once; the interrupted prompt does not count."""
        if self.running and self._child is not None:
            self._child.say("stop\n")
            self._resume()

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
                        with self._standing:
                            shown.points.append(Point(**{**event, "interrupted": self._interrupted}))
                            self._interrupted = self._still > 0
                    shown.doing = f"loading {event['target']}" if "index" not in event and "target" in event else ""
            code, said = child.ended(), child.last_words(8000)
        if code and not shown.error:
            log.error("the drift run ended with %s:\n%s", code, said)
            shown.error = str(Defect())
        done = len(shown.points) == shown.total
        shown.status = "failed" if shown.error else "finished" if done else "stopped"


# A run in figures.


WINDOW = 8  # prompts a moving average covers: two turns of the four tasks
RECOVERED = 0.95
Pooled = Callable[[Sequence[Point]], float | None]


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """Sums over one segment.

    acceptance: pooled, accepted / proposed over all its prompts; first and last: over its first and last WINDOW
    prompts; before: over the last WINDOW prompts ahead of it (None for the first segment). recovery: how many prompts
    after its beginning the moving average first reached 95% of `before`, None if it never did.
    """

    segment: int
    target: str
    task: str
    prompts: int
    acceptance: float | None
    before: float | None
    first: float | None
    last: float | None
    recovery: int | None
    tokens_per_pass: float | None
    tokens_per_second: float | None
    cache_learned: int


def segment_rows(schedule: Schedule, points: Sequence[Point]) -> list[SegmentRow]:
    """A row for every segment that was begun."""
    return [_row(schedule.segments[part[0].segment].task, part, points[: part[0].index]) for part in _parts(points)]


def _parts(points: Sequence[Point]) -> list[list[Point]]:
    """Segment by segment."""
    return [list(part) for _, part in groupby(points, attrgetter("segment"))]


def _averages(part: Sequence[Point], of: Pooled) -> list[float | None]:
    """What `of` says of the last WINDOW prompts of a segment at each of its points."""
    return [of(part[max(0, end - WINDOW) : end]) for end in range(1, len(part) + 1)]


def _row(task: str, part: Sequence[Point], earlier: Sequence[Point]) -> SegmentRow:
    before = stats.acceptance(earlier[-WINDOW:])
    return SegmentRow(
        part[0].segment, part[0].target, task, len(part),
        acceptance=stats.acceptance(part),
        before=before,
        first=stats.acceptance(part[:WINDOW]),
        last=stats.acceptance(part[-WINDOW:]),
        recovery=_recovery(_averages(part, stats.acceptance), before),
        tokens_per_pass=stats.per_pass(part),
        tokens_per_second=stats.per_second([p for p in part if not p.interrupted]),
        cache_learned=part[-1].cache_learned,
    )  # fmt: skip


def _recovery(averages: Sequence[float | None], before: float | None) -> int | None:
    """Counted once the window is full (or the segment over): a single good prompt is no recovery."""
    if before is None:
        return None
    full, wanted = min(WINDOW, len(averages)), RECOVERED * before
    back = (number for number, mean in enumerate(averages, 1) if number >= full and mean is not None and mean >= wanted)
    return next(back, None)


# Plots, with a mark at every switch.


def plots(schedule: Schedule, points: Sequence[Point]) -> list[Plot]:
    """Acceptance, and below it tokens per pass."""
    drawn = (
        _plot("Acceptance per prompt: accepted of what was proposed", stats.acceptance, share, schedule, points),
        _plot("Tokens per pass of the model, per prompt", stats.per_pass, "{:.1f}".format, schedule, points),
    )
    return [plot for plot in drawn if plot is not None]


def _plot(
    title: str, pooled: Pooled, word: Callable[[float], str], schedule: Schedule, points: Sequence[Point]
) -> Plot | None:
    """word: a pooled value in words."""
    dots = [(float(p.index), v) for p in points if (v := pooled([p])) is not None]
    if not dots:
        return None
    pairs = [zip(part, _averages(part, pooled), strict=True) for part in _parts(points)]
    lines = [[(float(point.index), mean) for point, mean in part if mean is not None] for part in pairs]
    total, lines = schedule.total, [line for line in lines if len(line) > 1]
    frame = Frame((-0.5, total - 0.5), (0.0, ceiling(max(y for line in (dots, *lines) for _, y in line))), word)
    series = [Series(dots, "dots", name="one prompt")]
    name = f"mean of the last prompts, at most {WINDOW}"
    series += [Series(line, name="" if i else name) for i, line in enumerate(lines)]
    step = max(1, total // 8)
    ticks = [(float(i), str(i + 1)) for i in range(step - 1, total, step)] if total > 1 else []
    return Plot(title, frame, series, _marks(schedule), ticks, f"{title}; the table below has the numbers")


def _marks(schedule: Schedule) -> list[Mark]:
    """A dashed line at every switch, and above every segment its target and task."""
    begins = accumulate((segment.count for segment in schedule.segments), initial=0)
    return [
        Mark(begin - 0.5, f"{segment.target}, {segment.task}", line=begin > 0)
        for begin, segment in zip(begins, schedule.segments, strict=False)
    ]
