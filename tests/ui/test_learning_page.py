"""The Learning page in a real browser: a drafter that really learns, is paused, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnidraft.learning.scheduler import Status
from omnidraft.learning.store import Counts, Start
from omnidraft.learning.update import Update
from tests.ui.chatting import arrived, ask, said, write
from tests.ui.conftest import SETTINGS
from ui.learning import view as learning_view

LEARNING = "\n[learning]\ncpu_percent = 100\ninterval = 100\n"


def open_learning(pages, server):
    page = pages.open(server, "/learning")
    page.wait_for_selector("#od-learning-state p")
    return page


def converse(pages, server, count: int) -> None:
    page = pages.open(server)
    arrived(page)
    for number in range(count):
        ask(page, f"Tom has {number + 12} apples and buys 7 more. How many does he have?")
    page.close()


@pytest.mark.browser_slow
def test_a_page_with_nothing_learned_says_what_will_happen(server, pages):
    page = open_learning(pages, server)
    page.wait_for_selector(".od-explain >> text=Nothing learned yet")
    assert page.locator("#od-learning-versions").is_hidden()
    page.click("#od-learning-load")
    said(page, "is loaded")
    page.wait_for_selector(".od-state[data-state=idle]")
    page.click("#od-learning-pause")
    page.wait_for_selector(".od-state[data-state=paused]")
    page.click("#od-learning-go-on")
    page.wait_for_selector(".od-state[data-state=idle]")
    page.uncheck("#od-set-learning-enabled input")
    page.wait_for_selector(".od-state[data-state=off]")
    page.check("#od-set-learning-enabled input")
    page.wait_for_selector(".od-state[data-state=idle]")
    write(page, "#od-set-learning-cpu_percent input", "200")
    page.keyboard.press("Enter")
    said(page, "must be a whole number from 1 to 100")


@pytest.mark.browser_slow
def test_it_learns_while_the_page_looks_on_and_any_version_can_be_chosen(make_server, pages):
    server = make_server(settings=SETTINGS + LEARNING)
    converse(pages, server, 21)
    page = open_learning(pages, server)
    page.click("#od-learning-train")
    page.wait_for_selector(".od-state[data-state=training]", timeout=60_000)
    page.wait_for_selector(".od-under >> text=Step", timeout=120_000)
    page.click("#od-learning-pause")
    page.wait_for_selector(".od-state[data-state=paused]")
    page.click("#od-learning-go-on")
    page.wait_for_selector("tr[data-version=v000001] .od-tag", timeout=200_000)
    assert page.locator("#od-learning-plots polyline").count() >= 1
    assert "taken into use (v1)" in page.inner_text("#od-learning-updates")
    assert "tiny-target-a" in page.inner_text("#od-learning-updates")
    bare = "#od-learning-versions tr[data-version='bare drafter']"
    page.click(f"{bare} [data-kind=use]")
    page.click(f"{bare} [data-kind=sure]")
    page.wait_for_selector(f"{bare} .od-tag", timeout=60_000)
    assert "drafts now, as it came" in page.inner_text("#od-learning-facts")
    page.click("tr[data-version=v000001] [data-kind=use]")
    page.click("tr[data-version=v000001] [data-kind=sure]")
    page.wait_for_selector("tr[data-version=v000001] .od-tag", timeout=60_000)


STATUS = Status(
    3, "training", "Training on 6 new and 0 earlier answers.", Counts(9, 800, 50_000, 6, costs=((1e12, 75.0),)), 8,
    False, None, None, "v000002", "own", False, 400.0,
)  # fmt: skip
JUDGED = {"old": {"direct": 0.1, "greedy": 0.2, "overlap": 0.2, "tokens": 100},
          "new": {"direct": 0.1, "greedy": 0.6, "overlap": 0.4, "tokens": 300}}  # fmt: skip
UPDATE = Update(
    2, 1.7e9, "tiny-drafter", "<b>target</b>", "abc", outcome="published", version="v000002", step=2, steps=4,
    tokens=640, answers_new=6, losses=(3.0, 2.0), before=JUDGED, after=JUDGED,
)  # fmt: skip


def test_held_out_acceptance_weighs_tokens_as_the_gate_does():
    assert learning_view.held_out(JUDGED) == pytest.approx((100 * 0.2 + 300 * 0.5) / 400)
    assert learning_view.held_out({}) is None


def test_what_comes_from_outside_is_escaped_and_a_running_update_shows_its_step():
    assert "<b>target" not in learning_view.updates_table([UPDATE])
    shown = learning_view.standing(replace(STATUS, update=UPDATE))
    assert "Step 2 of 4" in shown
    assert "width:50.0%" in shown


def test_what_is_due_is_not_said_to_wait_for_answers():
    shown = learning_view.standing(replace(STATUS, state="due", reason="Others work.", kept=Counts(fresh=400)))
    assert "Waiting for a quiet moment" in shown
    assert "Waiting for answers" not in shown
    assert "width:100.0%" in shown


def test_every_version_can_be_chosen_and_it_is_said_whose_they_are():
    shown = learning_view.versions_table([], [Start(True, False, "<b>other</b>"), Start(False, True)])
    assert shown.count('data-kind="use"') == 1, "what serves needs no button"
    assert 'data-which="warm"' in shown
    assert "<b>other" not in shown
    assert "No version" in learning_view.versions_table([], [Start(False, True)])
    said = learning_view.subject(("tiny-drafter", "gpt2<"))
    assert "<b>tiny-drafter</b>" in said
    assert "gpt2&lt;" in said
