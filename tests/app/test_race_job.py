"""A race of a profile: it takes the session for itself, can be stopped, and leaves nothing behind unless told to."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from omnidraft.app import conversing, loaded_pair
from omnidraft.app.race_job import RacePlan, RaceView
from omnidraft.app.session import Session, StillAnswering
from omnidraft.errors import ModelError
from omnidraft.lab.prompts import topic_prompts
from omnidraft.learning import learner
from omnidraft.learning.learner import Waits
from omnidraft.processes.progress import tell
from omnidraft.storage.paths import find_data_home
from ui.drift.race import race

PATIENCE = 600  # seconds; an update takes ten where the machine is free


@pytest.fixture
def session(tmp_path, models, monkeypatch):
    monkeypatch.setattr(learner, "Waits", partial(Waits, start=0.2))
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
    session.race.join(PATIENCE)
    assert not session.racing
    return session.race.view


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


def test_a_race_that_is_stopped_while_it_loads_says_so_and_ends_with_the_load(session, plan, monkeypatch):
    loading = threading.Event()

    def slow(*given):
        """A load of a minute, which tells how far it is as llama.cpp's loads do."""
        loading.set()
        for share in range(600):
            tell("reading the weights", share / 600)
            time.sleep(0.1)

    monkeypatch.setattr(loaded_pair, "open_target", slow)
    job = session.start_race(plan)
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
    session.start_race(plan)
    with pytest.raises(StillAnswering, match="race"):
        session.prepare()
    view = over(session)
    assert view.phase == "raced", view.error
    assert view.before.answers == view.before.same == 2
    assert all(lane.text and not lane.writing for lane in view.lanes.values())
    folder = Path(session.race._folder.path)
    session.teach_race()
    view = over(session)
    assert view.phase == "taught", view.error
    assert view.after.answers == view.after.same == 2
    assert any(folder.rglob("replay.sqlite")), "the lesson was learned there"
    assert session.assistant.learner.learned.history() == []
    with pytest.raises(ModelError):
        session.teach_race()
    session.race.close()
    assert not folder.exists()
    assert files(session.assistant.home.root) == before
    conversing.ask(session, session.shown.chat().id, "Hello")  # the profile's models come back by themselves
    session.job.join(60)
    assert session.job.error is None


def test_a_stopped_race_keeps_what_was_scored_and_lets_answers_through(session, plan):
    session.start_race(replace(plan, raced=topic_prompts("code", 40), most_tokens=400))
    end = time.monotonic() + PATIENCE
    while session.race.view.before is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    session.race.stop()
    view = over(session)
    assert view.phase == "stopped"
    assert 1 <= view.before.answers < 40
    session.prepare()
    assert session.ready


def test_what_shall_be_kept_is_learned_by_the_profile(session, plan):
    session.start_race(replace(plan, kept=True))
    assert over(session).phase == "raced"
    assert session.race._folder is None
    assert session.loaded is None
