"""The drift lab in a real browser: a run to its plot and its table, stopped; it outlives the page."""

from __future__ import annotations

import pytest

from omnidraft.format import percent
from omnidraft.lab.drift_lab import SegmentRow
from tests.ui.chatting import write
from ui.drift.page import story, table


def open_lab(pages, server):
    page = pages.open(server, "/drift-lab")
    page.wait_for_selector("#od-drift-progress p")
    return page


def test_a_run_goes_to_its_plot_and_outlives_its_page(server, pages):
    page = open_lab(pages, server)
    assert page.is_checked("#od-drift-learning input")
    assert int(page.input_value("#od-count input")) >= 60
    page.uncheck("#od-drift-learning input")
    write(page, "#od-count input", "three")
    page.click("#od-drift-start")
    page.wait_for_selector("#od-said >> text=must be a whole number")
    write(page, "#od-count input", "1")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=running]")
    page.reload()
    page.wait_for_selector(".od-run[data-status=finished]", timeout=90_000)
    page.wait_for_selector(".od-story >> text=1 prompt in a part tells no drift from chance: give each at least 8.")
    frame = page.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#od-drift-table .od-scroll'))")
    assert frame[0] <= frame[1]
    page.hover("#od-drift-table .od-tip:text-is('recovered after')")
    page.wait_for_selector("#od-bubble >> text=95%")
    assert page.locator(".od-plot circle").count() > 2
    assert page.locator(".od-plot .od-switch").count() == 2, "one in each plot"
    assert "math" in page.inner_text(".od-scroll")
    assert "code" in page.inner_text(".od-scroll")


def row(segment: int, task: str, acceptance: float, **about) -> SegmentRow:
    known = {"prompts": 20, "before": 0.30, "first": 0.24, "last": 0.26, "recovery": None}
    rest = {"tokens_per_pass": 1.5, "tokens_per_second": 9.0, "cache_learned": 3}
    return SegmentRow(segment, "a", task, acceptance=acceptance, **{**known, **rest, **about})


@pytest.mark.parametrize(("then", "told"), [
    (0.24, "it rose from 22% of the drafts in the part before to 24%"),
    (0.18, "it fell from 22% of the drafts in the part before to 18%"),
    (0.2204, "it stayed at 22% of the drafts"),
])  # fmt: skip
def test_the_story_tells_what_the_table_shows(then, told):
    rows = [row(0, "math", 0.22), row(1, "code", then)]
    assert told in story(rows, learning=True)
    assert all(percent(one.acceptance) in table(rows) for one in rows)


def test_eight_prompts_are_spoken_of_where_there_were_eight():
    long, short = (table([row(1, "math", 0.22, prompts=prompts, recovery=7)]) for prompts in (8, 7))
    assert all(told in long and told not in short for told in ("24%", "26%", "7 prompts"))


def test_too_few_prompts_tell_no_story():
    rows = [row(0, "math", 0.22), row(1, "code", 0.1, prompts=3)]
    assert "3 prompts in a part tell no drift" in story(rows, learning=True)
    assert "1 prompt in a part tells no drift" in story([row(0, "math", 0.22, prompts=1)], learning=True)
