"""A race on a thread of its own: before, the lesson if it is wanted, and after. It outlives the page that asked for it.

It works with an assistant of its own in a temporary home, which goes with the race, or with the profile's where what
is taught shall stay. Models are loaded for as long as it runs. Pages look at it whenever they like; knows no page.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnidraft.app.answer_job import Live
from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished, Token
from omnidraft.errors import OmniDraftError
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.race import LANES, Began, Lane, Paired, Said, Score, race, score, teach
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.settings.config import AppSettings, DraftSettings, SamplingSettings, changed
from omnidraft.storage import scratch
from omnidraft.storage.paths import find_data_home
from omnidraft.storage.scratch import Scratch

# What a race is asked for, and what a page shows of one while it goes on: values, which `race_job` fills.


UNDER_WAY = ("loading", "racing", "teaching", "training")


@dataclass(frozen=True)
class RacePlan:
    """What is raced. raced: prompts that both lanes answer; lesson: those the drafter is taught with, none of them
    raced; kept: the profile's own drafter learns, for good."""

    target: Path
    drafter: Path
    settings: AppSettings
    raced: Sequence[Prompt]
    lesson: Sequence[Prompt] = ()
    kept: bool = False
    copies: bool = False
    most_tokens: int = 160

    @property
    def sampling(self) -> SamplingSettings:
        most = min(self.settings.sampling.longest, self.most_tokens)
        return replace(self.settings.sampling, seed=self.settings.sampling.seed or 0, max_tokens=most)

    @property
    def draft(self) -> DraftSettings:
        return replace(self.settings.draft, enabled=True, lookup=self.copies)


@dataclass(slots=True)
class LaneView:
    """What a lane shows: the answer being written, or the last one."""

    text: str = ""
    live: Live = field(default_factory=Live)
    writing: bool = False


@dataclass(slots=True)
class RaceView:
    """What a page shows of a race. phase: loading, racing, teaching, training, raced, taught, stopped,
    failed. share: of the phase that is done. before, after: the scores, that of the race under way growing."""

    phase: str = "loading"
    lanes: dict[Lane, LaneView] = field(default_factory=lambda: {lane: LaneView() for lane in LANES})
    prompt: str = ""
    number: int = 0
    pairs: list[Paired] = field(default_factory=list)
    before: Score | None = None
    after: Score | None = None
    share: float = 0.0
    since: float = 0.0  # when this phase began, by the monotonic clock
    doing: str = ""
    error: str = ""
    version: str = ""


log = logging.getLogger("omnidraft.ui")
_FOLDER = "omnidraft-race-"  # names of races' temporary homes begin so


class RaceJob:
    """One race. `view` is looked at from other threads while it changes.

    Its temporary home stays until `close`, so that the drafter can be taught after the first race.
    """

    def __init__(self, plan: RacePlan, own: Assistant) -> None:
        self.plan, self.view = plan, RaceView()
        self.started = time.time()
        self._own = own
        self._assistant: Assistant | None = None
        self._folder: Scratch | None = None
        self._cancelled = threading.Event()
        self._loading: Progress | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        """Whether it was stopped and is not over yet."""
        return self.running and self._cancelled.is_set()

    @property
    def can_teach(self) -> bool:
        return not self.running and self.view.before is not None and bool(self.plan.lesson) and not self.view.after

    def start(self) -> RaceJob:
        return self._go(self._first)

    def teach(self) -> RaceJob:
        """Teach the drafter and race again."""
        return self._go(self._again)

    def stop(self) -> None:
        """End as soon as possible; what was scored stays."""
        self._cancelled.set()
        if (loading := self._loading) is not None:
            loading.call_off()
        if (assistant := self._assistant) is not None:
            assistant.stop()

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def close(self) -> None:
        """Stop, and remove what was learned for this race alone."""
        self.stop()
        self.join()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _go(self, run: Callable[[], None]) -> RaceJob:
        self._cancelled.clear()
        self.view.phase, self.view.error, self.view.share, self.view.doing = "loading", "", 0.0, ""
        self._thread = threading.Thread(target=self._carefully, args=(run,), name="race", daemon=True)
        self._thread.start()
        return self

    def _carefully(self, run: Callable[[], None]) -> None:
        view, others = self.view, None if self.plan.kept else self._own.learner
        if others is not None:
            others.answer_begins()  # the profile's own training waits, as it does for an answer
        try:
            run()
        except (_Stopped, CalledOff):
            pass
        except OmniDraftError as error:
            view.error = str(error)
        except Exception:
            log.exception("the race ended with a defect")
            view.error = "Something went wrong inside the program; its log has the details."
        finally:
            if others is not None:
                others.answer_ends()
            self._release()
            for lane in view.lanes.values():
                lane.writing = False
            done = "taught" if view.after and len(view.pairs) == len(self.plan.raced) else "raced"
            view.phase = "failed" if view.error else "stopped" if self._cancelled.is_set() else done

    def _first(self) -> None:
        self._load()
        for result in self._race():
            self.view.before = result

    def _again(self) -> None:
        if self.view.after is None:
            self._load()
            self._teach()
            self._release()
        self._load()
        for result in self._race():
            self.view.after = result

    def _race(self) -> Iterator[Score]:
        view, plan = self.view, self.plan
        view.phase, view.pairs, view.share = "racing", [], 0.0
        assert self._assistant is not None
        for event in race(self._assistant, plan.raced, plan.sampling, plan.draft, self._cancelled.is_set):
            if isinstance(event, Began):
                view.number, view.prompt = event.number, event.prompt.text
                if event.lane == LANES[event.number % 2]:  # the first of the two: the other lane waits, empty
                    view.lanes = {lane: LaneView() for lane in LANES}
                view.lanes[event.lane].writing = True
            elif isinstance(event, Said):
                self._say(view.lanes[event.lane], event)
            else:
                view.pairs.append(event)
                view.share = len(view.pairs) / len(plan.raced)
                if (result := score(view.pairs)) is not None:
                    yield result
        self._go_on_or_stop()

    def _say(self, lane: LaneView, said: Said) -> None:
        lane.live.take(said.event)
        if isinstance(said.event, Token):
            lane.text += said.event.text
        elif isinstance(said.event, Finished):
            lane.text += said.event.text
            lane.writing = False

    def _teach(self) -> None:
        view, plan = self.view, self.plan
        view.phase, view.share, view.pairs, view.since = "teaching", 0.0, [], time.monotonic()
        view.lanes = {lane: LaneView() for lane in LANES}
        sampling = replace(plan.sampling, seed=None)
        chat = f"race-{self.started:.0f}"
        assert self._assistant is not None
        lesson = teach(self._assistant, plan.lesson, sampling, plan.draft, chat, self._cancelled.is_set)
        for phase, view.share, view.doing in lesson:
            if view.phase != phase:
                view.phase, view.since = phase, time.monotonic()
        self._go_on_or_stop()

    def _load(self) -> None:
        plan = self.plan
        self.view.phase = "loading"
        self._loading = Progress(plan.target)
        self._go_on_or_stop()
        assistant = self._own if plan.kept else self._temporary()
        self._assistant = assistant
        with watched(self._loading):
            assistant.load(plan.target, plan.drafter, plan.settings.model)
        self._go_on_or_stop()

    def _temporary(self) -> Assistant:
        """An assistant in a home that goes with this race. It may train with all processors: somebody waits for it."""
        self._folder = self._folder or Scratch(_FOLDER)
        assistant = Assistant(find_data_home(str(self._folder.path)), learn=True)
        learning = {"learning.enabled": True, "learning.cpu_percent": 100}
        assistant.settings = changed(replace(self.plan.settings, model_folders=()), **learning)
        return assistant

    def _go_on_or_stop(self) -> None:
        if self._cancelled.is_set():
            raise _Stopped

    def _release(self) -> None:
        """Free the models; what was learned stays in the home."""
        assistant, self._assistant = self._assistant, None
        if assistant is None:
            return
        self.view.version = assistant.learner.status().served or ""
        if assistant is self._own:
            assistant.unload()
        else:
            assistant.close()


def sweep() -> None:
    """Remove what races of killed programs have left."""
    scratch.sweep(Path(tempfile.gettempdir()), _FOLDER)


class _Stopped(Exception):
    """The race was stopped; what was scored stays."""
