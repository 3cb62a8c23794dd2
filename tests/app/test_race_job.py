"""A race of a profile: it takes the session for itself, can be stopped, and leaves nothing behind unless told to."""

from __future__ import annotations

import re
import time
import weakref
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from omnidraft.app import conversing
from omnidraft.app.race_view import FEWEST, SHORT, RacePlan, RaceView, Times, step_seconds
from omnidraft.app.session import Session, StillAnswering
from omnidraft.app.speeds import SpeedStore
from omnidraft.errors import ModelError
from omnidraft.lab.prompts import topic_prompts
from omnidraft.learning import scheduler
from omnidraft.learning.scheduler import Waits
from omnidraft.learning.training import process
from omnidraft.learning.update import Update
from omnidraft.processes.contention import Contention
from omnidraft.storage.paths import find_data_home
from tests.learning.living import HASTY
from tests.until import until
from ui.drift.race import price
from ui.drift.race_view import race

PATIENCE = 600  # seconds; an update takes ten where the machine is free


@pytest.fixture
def session(tmp_path, models, monkeypatch):
    monkeypatch.setattr(scheduler, "Waits", partial(Waits, start=0.2))
    monkeypatch.setattr(process, "MODULE", HASTY)
    made = Session(find_data_home(tmp_path / "home"), "default", str(models / "tiny-target-b-f16.gguf"), None)
    made.apply(**{"model.threads": 1})
    yield made
    made.close()


@pytest.fixture
def plan(session, models):
    prompts = topic_prompts("math", 18)
    return RacePlan(
        models / "tiny-target-b-f16.gguf", models / "tiny-drafter-f16.gguf", session.settings, prompts[:2],
        prompts[2:], most_tokens=16,
    )  # fmt: skip


def over(session: Session) -> RaceView:
    session.races.latest.join(PATIENCE)
    assert not session.races.running
    return session.races.latest.view


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


def test_a_race_that_is_stopped_while_it_loads_says_so_and_ends_with_the_load(session, plan, slow_load):
    loading = slow_load("open_target")
    job = session.races.begin(plan)
    assert loading.wait(10)
    job.stop()
    told = race(job)
    job.join(5)
    assert "Stopping" in told
    assert (job.running, job.view.phase, job.view.error) == (False, "stopped", "")
    assert "Stopping" not in race(job)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_race_a_lesson_and_a_race_leave_nothing_in_the_profile(session, plan):
    before = files(session.assistant.home.root)
    session.races.begin(plan)
    with pytest.raises(StillAnswering, match="race"):
        session.races.begin(plan)
    view = over(session)
    assert view.phase == "raced", view.error
    assert view.before.answers == view.before.same == 2
    assert all(lane.text and lane.phase == "done" for lane in view.lanes.values())
    folder = Path(session.races.latest._folder.path)
    job = session.races.teach(16)
    until(lambda: job.view.phase == "training" and job.view.done, seconds=PATIENCE)
    step = job.view.done
    job.stop()
    assert over(session).phase == "stopped"
    session.races.teach(16)
    until(lambda: job.view.phase == "training" and job.view.done, seconds=PATIENCE)
    assert job.view.done >= step, "it goes on with the training where it was"
    view = over(session)
    assert view.phase == "taught", view.error
    assert view.taught.steps >= 40
    assert "lesson" in race(job)
    assert view.after.answers == view.after.same == 2
    assert any(folder.rglob("replay.sqlite")), "the lesson was learned there"
    assert session.assistant.learned.history() == []
    with pytest.raises(ModelError):
        session.races.teach(16)
    session.races.latest.close()
    assert not folder.exists()
    assert files(session.assistant.home.root) == before
    conversing.ask(session, session.shown.chat().id, "Hello")  # the profile's models come back by themselves
    session.job.join(60)
    assert session.job.error is None


def test_what_passes_took_in_a_race_is_known_to_the_next_start(session, plan, monkeypatch):
    monkeypatch.setattr(Contention, "quiet_since", lambda _: True)  # though others may have the processors
    assert "was not measured here yet" in price(session, str(plan.target))
    session.races.begin(replace(plan, raced=plan.raced[:1]))
    assert over(session).phase == "raced"
    home, drafter = session.assistant.home, plan.drafter
    session.close()
    with closing(Session(home, "default", str(plan.target), None)) as again:
        assert "A race takes at most" in price(again, str(plan.target))
        assert SpeedStore(home.cache).pair(plan.target, drafter, again.model_settings) is None


def test_a_stopped_race_keeps_what_was_scored_and_lets_answers_through(session, plan):
    session.races.begin(replace(plan, raced=topic_prompts("code", 40), most_tokens=400))
    until(lambda: session.races.latest.view.before is not None)
    session.races.latest.stop()
    view = over(session)
    assert view.phase == "stopped"
    assert 1 <= view.before.answers < 40
    session.prepare()
    assert session.ready


def long_race(plan):
    return replace(plan, raced=topic_prompts("code", 6), most_tokens=200)


def test_a_race_gives_way_to_a_question_whose_time_does_not_count_and_goes_on_behind_it(session, plan):
    began = time.monotonic()
    job = session.races.begin(replace(long_race(plan), kept=True))
    until(lambda: job.view.lanes["plain"].text)
    asked = time.monotonic()
    with session.races.aside():
        gave_way = time.monotonic() - asked
        time.sleep(1.0)
    assert gave_way < 1.0
    question = conversing.ask(session, session.shown.chat().id, "Hello")
    question.join(60)
    assert (question.error, bool(question.text)) == (None, True)
    assert session.races.running
    view = over(session)
    assert (view.phase, view.error) == ("raced", "")
    assert view.before.answers == view.before.same == 6
    assert not any(turn.traces["plain"].degenerate and not turn.traces["plain"].ids for turn in view.turns)
    assert sum(job.times.pairs) < time.monotonic() - began - 1.0


def test_answers_to_a_stopped_lesson_are_kept_and_not_asked_again(session, plan):
    job = session.races.begin(plan)
    assert over(session).phase == "raced"
    job.teach(16)
    until(lambda: job.view.given >= 3)
    job.stop()
    view = over(session)
    given = view.given
    assert (view.phase, given < 16) == ("stopped", True)
    assert f"{given} answers of the lesson are kept" in race(job)
    assert [offer.given for offer in job.offers][-1] == given
    again = session.races.begin(plan)
    assert over(session).phase == "raced"
    assert again.view.given == given, "another race of the same model and topic has them, too"
    again.teach(16)
    until(lambda: (again.view.phase == "teaching" and again.view.given > given) or not again.running)
    again.stop()
    assert over(session).given > given
    other = session.races.begin(replace(plan, raced=plan.raced[:1], lesson=topic_prompts("code", 8)))
    assert over(session).given == other.view.given == 0


def test_what_takes_long_says_what_it_does_and_how_long_it_will(session, plan):
    told = session.assistant.learner.status
    job = session.races.begin(long_race(plan))
    until(lambda: len(job.view.turns) >= 2)
    assert "A race is under way in the Drift lab: prompt" in told().reason
    assert re.search(r"about \d+ (s|min) to go", race(job))
    over(session)
    assert "Drift lab" not in told().reason
    took = r"\d+ (s|min)"
    phases = rf"\({took} of answers, {took} of training, {took} of racing\)"
    assert re.search(rf"16 answers: about {took} {phases}", race(job))
    job.teach(16)
    until(lambda: job.view.given >= 1)
    assert "The Drift lab teaches the drafter: answer" in told().reason
    assert re.search(r"to go", race(job))
    job.stop()


def test_a_race_that_is_over_holds_no_vocabulary(session, plan):
    job = session.races.begin(plan)
    until(lambda: job.view.lanes["plain"].text)
    held = weakref.ref(job._assistant.loaded.pair)
    assert over(session).phase == "raced"
    assert held() is None
    assert race(job)


# What a lesson takes is told before it begins, and one of ten minutes is offered first.


def times(answer: float, step: float = 0.5) -> Times:
    return Times(pairs=[2 * answer] * 8, answers=[answer] * 8, read=[200] * 8, step=step)


def test_one_that_is_short_is_offered_alone_and_one_of_few_answers_where_the_machine_is_slow():
    (whole,) = times(0.2, 0.05).offers(256, 0, 8)
    assert whole.prompts == 256
    short, _ = times(120.0).offers(256, 0, 8)
    assert short.prompts == FEWEST
    assert short.seconds > SHORT, "and it says that it takes longer"
    (few,) = times(120.0).offers(4, 0, 2)
    assert few.prompts == 4


def test_answers_that_are_given_take_no_time():
    before, after = (times(5.0).lesson(64, given, 8).needed for given in (0, 40))
    assert before["answers"] - after["answers"] == pytest.approx(200.0)
    assert before["training"] == after["training"]


def test_a_step_takes_what_past_updates_took_else_what_the_drafters_size_says():
    update = Update(1, 0.0, "drafter", "t", "v", step=40, steps=40, cpu_seconds=60.0, ended=1.0)
    other = Update(2, 0.0, "another", "t", "v", step=40, steps=40, cpu_seconds=600.0, ended=1.0)
    assert step_seconds([other, update], "drafter", 10**9, 2) == (0.75, True)
    seconds, measured = step_seconds([other], "drafter", 22_400_000, 1)
    assert (seconds, measured) == (pytest.approx(0.35), False)
