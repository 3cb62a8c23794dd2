"""A race on a thread of its own: before, the lesson if it is wanted, and after. It outlives the page that asked for it.

It works with an assistant of its own in a temporary home, which goes with the race, or with the profile's where what
is taught shall stay. It gives way to whoever asks something: the answer it is at is cut, and asked again behind theirs.
Stopped, it keeps what it has: answers to a lesson, and the training as far as it is. Pages look at it whenever they
like; knows no page.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.app.giving_way import GivingWay
from omnidraft.app.live import Live
from omnidraft.app.models_list import same_file
from omnidraft.app.race_view import UNDER_WAY, Needed, Offer, RacePlan, RaceView, Times, silent, step_seconds
from omnidraft.app.speeds import SpeedStore
from omnidraft.errors import Defect, NoRoom, OmniDraftError
from omnidraft.lab.experiment import Began, Interrupted, Said, Turn
from omnidraft.lab.race import LANES, Lane, Lesson, Score, race, score, teach
from omnidraft.learning.update import threads_within
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.settings.config import changed
from omnidraft.storage import scratch
from omnidraft.storage.paths import find_data_home
from omnidraft.storage.scratch import Scratch

log = logging.getLogger("omnidraft.ui")
_FOLDER = "omnidraft-race-"  # names of races' temporary homes begin so


class RaceJob:
    """One race. `view` is looked at from other threads while it changes; times: what its answers took.

    way: where it stands still for others; took: called when it has loaded its models into the profile's assistant, as
    it does for what is kept. Its temporary home stays until `close`, so that the drafter can be taught after the first
    race, and a lesson gone on with.
    """

    def __init__(self, plan: RacePlan, own: Assistant, way: GivingWay, took: Callable[[], object]) -> None:
        self.plan, self.view, self.times = plan, RaceView(), Times()
        self._own, self._way, self._took = own, way, took
        self._assistant: Assistant | None = None  # at work, or with training that was stopped
        self._folder: Scratch | None = None
        self._cancelled = threading.Event()
        self._loading: Progress | None = None
        self._thread: threading.Thread | None = None
        self._steps: list[float] = []  # when each step of the training was over

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

    @property
    def offers(self) -> list[Offer]:
        """The lessons there could be, with what each takes; none before a prompt was raced."""
        if not self.times.pairs or not self.plan.lesson:
            return []
        return self.times.offers(len(self.plan.lesson), self.view.given, len(self.plan.raced))

    @property
    def needed(self) -> Needed | None:
        """What is still to come; None where that cannot be told yet."""
        view, times = self.view, self.times
        if view.phase not in UNDER_WAY or not times.pairs:
            return None
        race = times.racing(len(self.plan.raced))
        if view.phase == "teaching":
            left = times.answering(view.of - view.done)
            return {"answers": left, "training": times.training(view.of), "racing": race}
        if view.phase == "training":
            return {"training": self._training_left(), "racing": race}
        return {"racing": times.racing(len(self.plan.raced) - len(view.turns))}

    def _training_left(self) -> float:
        view, at = self.view, self._steps
        if len(at) < 3 or not view.of:
            return self.times.training(view.lesson) * (1 - view.share)
        return (view.of - view.done) * (at[-1] - at[0]) / (len(at) - 1)

    @property
    def doing(self) -> str:
        """What it keeps the machine with, in a sentence; "" if nothing, or if that is the profile's own learning."""
        view = self.view
        if not self.running or (self.plan.kept and view.phase == "training"):
            return ""
        what = "The Drift lab teaches the drafter" if view.lesson else "A race is under way in the Drift lab"
        units = {"racing": "prompt", "teaching": "answer", "training": "step"}
        at = f": {units[view.phase]} {view.done} of {view.of}" if view.phase in units and view.of else ""
        return f"{what}{at}; learning from chats goes on behind it."

    def start(self) -> RaceJob:
        return self._go(self._first)

    def teach(self, prompts: int) -> RaceJob:
        """Teach the drafter the first prompts of the lesson and race again."""
        self.view.lesson = prompts
        return self._go(self._again)

    def stop(self) -> None:
        """End as soon as possible; what was scored, answered and trained stays."""
        self._cancelled.set()
        self._cut()
        self._way.look()

    def _cut(self) -> None:
        """End what is being loaded or written, by this race and nobody else."""
        if (loading := self._loading) is not None:
            loading.call_off()
        if (assistant := self._assistant) is not None and self._way.at_work:
            assistant.stop()

    def free(self) -> None:
        """Release the memory of the models; only while it gives way. They are loaded again when it goes on."""
        if self._assistant is not None and self._assistant is not self._own:
            self._assistant.unload()

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def close(self) -> None:
        """Stop, and remove what was learned for this race alone."""
        self._end()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _end(self) -> None:
        self.stop()
        self.join()
        if self._assistant is not None and self._assistant is not self._own:
            self._assistant.close()
        self._assistant = None

    def take_over(self, before: RaceJob) -> None:
        """Go on with the answers of a race of the same lesson that is over, and close that."""
        before._end()
        if before._folder is not None and not self.plan.kept and self.plan.same_lesson(before.plan):
            answers, own = (find_data_home(str(f.path)).profile("default") for f in (before._folder, self._place()))
            if answers.replay.is_file():
                own.replay.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(answers.replay, own.replay)
        before.close()

    def _go(self, run: Callable[[], None]) -> RaceJob:
        self._cancelled.clear()
        view = self.view
        view.phase, view.error, view.done, view.of = "loading", "", 0, 0
        self._thread = threading.Thread(target=self._carefully, args=(run,), name="race", daemon=True)
        self._thread.start()
        return self

    def _carefully(self, run: Callable[[], None]) -> None:
        view, learner = self.view, self._own.learner
        learner.meanwhile = lambda: self.doing
        # The profile's own training waits, as it does for an answer.
        waits = nullcontext() if self.plan.kept else learner.answering()
        try:
            with waits, self._way.working(self._cut, self._cancelled.is_set):
                try:
                    run()
                finally:
                    self._release()
        except (_Stopped, CalledOff):
            pass
        except OmniDraftError as error:
            view.error = str(error)
        except Exception:
            log.exception("the race ended with a defect")
            view.error = str(Defect())
        finally:
            learner.meanwhile = str
            for lane in view.lanes.values():
                lane.phase = "done"
            done = "taught" if view.after and len(view.turns) == len(self.plan.raced) else "raced"
            view.phase = "failed" if view.error else "stopped" if self._cancelled.is_set() else done

    def _first(self) -> None:
        self._load()
        for result in self._race():
            self.view.before = result

    def _again(self) -> None:
        self._load()
        self._teach()
        self._release()
        self._load()
        for result in self._race():
            self.view.after = result

    def _race(self) -> Iterator[Score]:
        view, plan = self.view, self.plan
        view.phase, view.turns, view.done, view.of = "racing", [], 0, len(plan.raced)
        self.times.pairs, self.times.answers, self.times.read = [], [], []
        assert self._assistant is not None
        for event in race(self._assistant, plan.raced, plan.sampling, plan.draft, self._cut_short):
            if isinstance(event, Interrupted):
                self._let_by()
            elif isinstance(event, Began):
                view.number, view.prompt = event.number, event.prompt.text
                if event.way == LANES[event.number % 2]:  # the first of the two: the other lane waits, empty
                    view.lanes = silent()
                view.lanes[event.way] = Live()
            elif isinstance(event, Said):
                view.lanes[event.way].take(event.event)
            else:
                self._count(event)
                if (result := score(view.turns)) is not None:
                    yield result
        self._go_on_or_stop()

    def _cut_short(self) -> bool:
        return self._cancelled.is_set() or self._way.wanted

    def _count(self, turn: Turn[Lane]) -> None:
        view, times = self.view, self.times
        view.turns.append(turn)
        view.done = len(view.turns)
        times.pairs.append(sum(turn.took.values()))
        times.answers.append(turn.took["drafted"])
        times.read.append(len(turn.traces["drafted"].ids) + len(view.prompt.split()))

    def _teach(self) -> None:
        view, plan = self.view, self.plan
        lesson = dict(list(plan.named_lesson.items())[: view.lesson])
        view.phase, view.turns, view.of = "teaching", [], len(lesson)
        view.lanes, view.done = silent(), min(view.given, len(lesson))
        self._steps = []
        sampling = replace(plan.sampling, seed=None)
        assert self._assistant is not None
        self._assistant.learner.hold(False)
        for at in teach(self._assistant, lesson, sampling, plan.draft, self._cut_short, self._cancelled.is_set):
            if isinstance(at, Interrupted) or self._way.wanted:
                self._let_by()
            if isinstance(at, Lesson):
                self._follow(at)
        view.taught = self._assistant.learner.status().last
        self._go_on_or_stop()

    def _follow(self, at: Lesson) -> None:
        view = self.view
        if at.phase == "teaching":
            view.given = at.done
            self.times.answers.append(at.took)
        elif at.done and at.done != view.done:
            self._steps.append(time.monotonic())
        view.phase, view.done, view.of = at.phase, at.done, at.of

    def _let_by(self) -> None:
        """Stand still for somebody, with the training too; then go on with the models as they were."""
        self._go_on_or_stop()
        assert self._assistant is not None
        self.view.aside = True
        try:
            with self._assistant.learner.answering():
                self._way.let_by(self._cut, self._cancelled.is_set)
        finally:
            self.view.aside = False
            self._steps = []
        self._go_on_or_stop()
        asked = self._assistant.loaded.asked
        if asked is None or not same_file(asked.target, self.plan.target) or asked.drafter != self.plan.drafter:
            phase = self.view.phase
            self._load()
            self.view.phase = phase

    def _load(self) -> None:
        """Load the models, again if somebody came in between."""
        self.view.phase = "loading"
        assistant = self._assistant = self._assistant or (self._own if self.plan.kept else self._temporary())
        while True:
            self._go_on_or_stop()
            self._loading = Progress(self.plan.target)
            try:
                with watched(self._loading):
                    self._make_room(assistant)
                break
            except CalledOff:
                self._go_on_or_stop()
                self._way.let_by(self._cut, self._cancelled.is_set)
            finally:
                self._loading = None
        self._took()
        self._know_times(assistant)
        self._go_on_or_stop()

    def _make_room(self, assistant: Assistant) -> None:
        """Load; the profile's models go where memory cannot hold both."""
        plan = self.plan
        try:
            assistant.load(plan.target, plan.drafter, plan.settings.model)
        except NoRoom:
            if assistant is self._own or self._own.loaded.target_file is None:
                raise
            self._own.unload()
            assistant.load(plan.target, plan.drafter, plan.settings.model)

    def _know_times(self, assistant: Assistant) -> None:
        """What answers are given already, and what a step of training takes."""
        names, waiting = list(self.plan.named_lesson), assistant.learned.unlearned()
        self.view.given = sum(name in waiting for name in names)
        drafter = assistant.loaded.drafter
        threads = threads_within(assistant.settings.learning.cpu_percent)
        history = [*assistant.learned.history(), *self._own.learned.history()]
        if drafter is not None:
            found = step_seconds(history, self.plan.drafter.stem, drafter.info.parameters, threads)
            self.times.step, self.times.measured = found

    def _place(self) -> Scratch:
        self._folder = self._folder or Scratch(_FOLDER)
        return self._folder

    def _temporary(self) -> Assistant:
        """An assistant in a home that goes with this race. It may train with all processors, for somebody waits for it,
        and trains when it is told to."""
        assistant = Assistant(find_data_home(str(self._place().path)), learn=True)
        learning = {"learning.enabled": True, "learning.cpu_percent": 100}
        assistant.settings = changed(replace(self.plan.settings, model_folders=()), **learning)
        assistant.learner.hold()
        return assistant

    def _go_on_or_stop(self) -> None:
        if self._cancelled.is_set():
            raise _Stopped

    def _release(self) -> None:
        """Let go of the models and what belongs to them; what was learned stays in the home, and training that was
        stopped in memory, for the next lesson. The profile's own assistant is the profile's again, as it is."""
        if (assistant := self._assistant) is None:
            return
        if assistant is not self._own:
            if (pace := assistant.loaded.pace) is not None:
                store = SpeedStore(self._own.home.cache)  # how good a taught drafter is stays with the race
                store.save_target(self.plan.target, self.plan.settings.model, pace)
            if assistant.learner.status().update is not None:
                assistant.learner.hold()
                assistant.unload()
                return
            assistant.close()
        self._assistant = None


def sweep() -> None:
    """Remove what races of killed programs have left."""
    scratch.sweep(Path(tempfile.gettempdir()), _FOLDER)


class _Stopped(Exception):
    """The race was stopped; what was scored stays."""
