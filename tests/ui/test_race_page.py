"""The race on the Drift lab page: what the form asks for, what a race looks like, and one in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnidraft.app.giving_way import GivingWay
from omnidraft.app.race_job import RaceJob
from omnidraft.app.race_view import RacePlan
from omnidraft.app.speeds import SpeedStore
from omnidraft.decoding.pace import Pace
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import own_prompts, topic_prompts
from omnidraft.lab.race import Score
from omnidraft.learning.update import Update
from omnidraft.settings.config import AppSettings
from tests.ui.chatting import arrived, choose
from tests.ui.fake_assistant import fake_sessions
from ui.drift import race_view as race
from ui.drift.race import FEWEST, LESSON, OWN, RACED, parted, plan_of, price


@pytest.fixture
def session(tmp_path, monkeypatch, models):
    for sessions in fake_sessions(tmp_path, monkeypatch, models / "tiny-target-a-f16.gguf"):
        yield sessions.get("ada")


@pytest.fixture
def target(models) -> str:
    return str(models / "tiny-target-a-f16.gguf")


def test_the_form_makes_a_plan_whose_lesson_races_no_prompt(session, target):
    plan = plan_of(session, target, "code", "", False, False)
    assert (len(plan.raced), len(plan.lesson)) == (RACED, LESSON)
    assert not {p.text for p in plan.raced} & {p.text for p in plan.lesson}
    assert not any((plan.kept, plan.copies))
    kept = plan_of(session, target, "code", "", True, True)
    assert kept.kept
    assert kept.copies


def test_ones_own_prompts_are_raced_and_taught_if_there_are_enough(session, target):
    plan = plan_of(session, target, OWN, "Who?\n\nWhat?\n", False, False)
    assert [p.text for p in plan.raced] == ["Who?", "What?"]
    assert plan.lesson == []
    raced, lesson = parted(own_prompts("\n".join(map(str, range(FEWEST)))))
    assert (len(raced), len(lesson)) == (RACED, FEWEST - RACED)
    with pytest.raises(SettingsError):
        plan_of(session, target, OWN, " \n", False, False)


def test_only_models_of_the_list_are_raced(session, tmp_path):
    for model in (None, str(tmp_path / "secret.gguf")):
        with pytest.raises(ModelError):
            plan_of(session, model, "code", "", False, False)


def a_race(view_phase: str = "taught", **scores: Score | None) -> RaceJob:
    plan = RacePlan(Path("t.gguf"), Path("d.gguf"), AppSettings(), topic_prompts("code", 6), topic_prompts("math", 20))
    job = RaceJob(plan, None, GivingWay(), bool)
    job.view.phase = view_phase
    for name, value in scores.items():
        setattr(job.view, name, value)
    return job


def a_score(speedup: float, acceptance: float | None = 0.5, same: int = 6) -> Score:
    around = (speedup - 0.1, speedup + 0.1)
    return Score(6, 100.0, 100.0 * speedup, speedup, around, acceptance, 0, same)


def test_the_verdict_stands_first_and_tells_when_the_machine_was_another_one():
    shown = race.race(a_race(before=a_score(1.05, 0.1), after=a_score(1.4)))
    assert shown.index("od-verdict") < shown.index("od-bars")
    assert shown.count("od-gainbar") == 2
    assert 'data-equal="true"' in shown
    assert "1.40×</b> (1.30 to 1.50) as fast" in shown
    assert "1.05× before the lesson, when 10% of the guesses were right" in shown
    assert "slower in the second race" not in shown
    slower = replace(a_score(1.4), plain_speed=70.0)
    assert "was 30% slower in the second race" in race.race(a_race(before=a_score(1.05), after=slower))
    slow = race.race(a_race("raced", before=a_score(0.8, same=5)))
    assert 'data-equal="false"' in slow
    assert "guessing costs more than it saves: 50% of the guesses were right" in slow


@pytest.mark.parametrize("speedup", [0.95, 1.05])
def test_a_race_whose_interval_holds_plain_decoding_claims_neither_gain_nor_loss(speedup):
    shown = race.race(a_race("raced", before=a_score(speedup)))
    assert "costs more than it saves" not in shown
    assert "so few answers do not tell" in shown


def test_no_speedup_is_shown_of_a_race_under_way_or_of_too_few_answers():
    growing = a_race("racing", before=a_score(1.05), after=a_score(0.4))
    growing.view.turns = [SimpleNamespace()]
    shown = race.race(growing)
    assert "1.05×" in shown
    assert "0.40×" not in shown
    first = a_race("racing", before=a_score(0.4))
    first.view.turns = [SimpleNamespace()]
    few = a_race("raced", before=replace(a_score(0.4), interval=None))
    assert "×" not in race.race(first) + race.race(few)
    assert "too few answers" in race.race(few)


def test_a_lesson_says_beforehand_what_it_takes_and_one_of_ten_minutes_comes_first():
    job = a_race("raced", before=a_score(1.05))
    job.times.pairs, job.times.answers, job.times.read, job.times.step = [10.0], [5.0], [200], 0.25
    job.plan = replace(job.plan, lesson=topic_prompts("math", 80))
    job.plan = replace(job.plan, lesson=[*job.plan.lesson, *topic_prompts("code", 80), *topic_prompts("qa", 80)])
    shown = race.race(job)
    assert "92 answers: about 10 min (8 min of answers, 72 s of training, 60 s of racing)" in shown
    assert "240 answers: about" in shown
    assert "rule of thumb" in shown
    labels = [race.teach_label(offer) for offer in job.offers]
    assert labels[0] == "Teach it: 92 answers, about 10 min"
    job.view.given, job.times.measured = 40, True
    shown = race.race(job)
    assert "40 answers of the lesson are kept and not asked again" in shown
    assert "rule of thumb" not in shown
    assert race.teach_label(job.offers[0]).startswith("Go on teaching: ")
    job.plan = replace(job.plan, lesson=[])
    assert "too few prompts to teach with" in race.race(job)


def test_all_that_is_still_to_come_is_in_the_time_that_is_left():
    job = a_race("teaching", before=a_score(1.05))
    job.times.pairs, job.times.answers, job.times.read, job.times.step = [10.0], [5.0], [200], 0.5
    job.view.done, job.view.of, job.view.lesson = 14, 20, 20
    shown = race.race(job)
    assert re.search(r"Answer 14 of 20 to learn from, about \d+ (s|min) \(30 s of answers, \d+ s of training", shown)
    job.view.phase, job.view.done, job.view.of = "training", 30, 40
    assert re.search(r"Step 30 of 40, about \d+ s \(\d+ s of training, 60 s of racing\) to go", race.race(job))


def test_what_a_lesson_brought_is_shown_when_it_is_over():
    job = a_race(before=a_score(1.05, 0.1), after=a_score(1.4))
    job.view.taught, job.view.lesson = Update(1, 0.0, "d", "t", "v", outcome="published"), 64
    shown = race.race(job)
    assert "The lesson brought 1.05× to 1.40×: 10% of the guesses were right before, 50% now, by 64 answers." in shown
    job.view.taught = Update(1, 0.0, "d", "t", "v", outcome="refused", reason="It was not better.")
    assert "The lesson changed nothing: It was not better." in race.race(job)


def test_what_comes_from_a_model_or_a_person_is_escaped():
    job = a_race("racing", before=a_score(1.0))
    job.view.prompt = job.view.error = "<img src=x onerror=alert(1)>"
    job.view.lanes["plain"].pieces.append((job.view.prompt, "target"))
    assert "<img" not in race.race(job)


IN_VIEW = "document.querySelector('.od-verdict').getBoundingClientRect().bottom < innerHeight && scrollY === 0"
SHORT = "[model]\nthreads = 1\n\n[sampling]\ntemperature = 0.0\nmax_tokens = 12\n"


def test_a_race_begins_from_the_empty_chat_and_ends_with_the_same_text(make_server, pages):
    page = pages.open(make_server(settings=SHORT))
    arrived(page)
    page.click(".od-empty .od-go")
    page.click("#od-race-stop")  # at once: a race of toys is over in a second or two, and its button gone
    page.wait_for_selector(".od-race[data-phase=stopped]", timeout=120_000)
    page.click("#od-race-go")
    page.wait_for_selector(".od-race[data-phase=raced]", timeout=120_000)
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(IN_VIEW)
    assert page.locator(".od-lane").count() == 2
    page.wait_for_selector(".od-proof[data-equal=true]")
    page.wait_for_function("!document.body.innerText.includes('was not measured here yet')")
    assert page.locator(".od-gainbar").count() == 1
    assert page.is_visible("#od-race-teach")
    page.reload()
    page.wait_for_selector(".od-race[data-phase=raced]")  # a reload shows the race, and begins no other
    assert page.is_visible("#od-race-go")
    choose(page, "#od-race-topic", "my own prompts")
    page.wait_for_selector("#od-race-own textarea")
    page.click("#od-race-go")
    page.wait_for_selector("#od-race-said >> text=Write the prompts to race")


def test_where_guessing_cannot_pay_the_page_says_so(session, target):
    assert "tiny-target-a was not measured here yet" in price(session, target)
    known = Pace({1: 0.01, 2: 0.024, 5: 0.042, 9: 0.09}, 0.001)
    known.keep()
    SpeedStore(session.assistant.home.cache).save_target(Path(target), session.model_settings, known)
    assert "five tokens of tiny-target-a for 4.2 times the price of one: guessing cannot pay" in price(session, target)
    assert price(session, None) == ""
