"""The drift lab in a real browser: a run to its plot, paused, resumed, exported; it outlives the page."""

from __future__ import annotations

import json

import pytest

from tests.ui.chatting import choose, write


def open_lab(pages, server):
    page = pages.open(server, "/drift-lab")
    page.wait_for_selector("#od-drift-runs p, .od-past")
    return page


def test_a_run_goes_to_its_plot_and_leaves_as_files(server, pages, tmp_path):
    page = open_lab(pages, server)
    write(page, "#od-count input", "3")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=90_000)
    assert page.locator(".od-plot circle").count() > 2
    assert page.locator(".od-plot .od-switch").count() == 1
    assert "math" in page.inner_text(".od-scroll")
    assert "code" in page.inner_text(".od-scroll")
    for kind in ("csv", "json", "png"):
        with page.expect_download() as download:
            page.click(f"#od-drift-links >> text={kind.upper()}")
        download.value.save_as(tmp_path / kind)
    assert len((tmp_path / "csv").read_text().splitlines()) == 7
    assert len(json.loads((tmp_path / "json").read_text())["points"]) == 6
    assert (tmp_path / "png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.browser_slow
def test_a_paused_run_is_resumed_from_another_page(server, pages):
    page = open_lab(pages, server)
    choose(page, "#od-schedule", "My own schedule")
    write(page, "#od-own textarea", "tiny-target-a, dialogue, 6\ntiny-target-b, qa, 6")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=running]")
    page.click("#od-drift-pause")
    page.wait_for_selector(".od-run[data-status=paused]", timeout=60_000)
    page.close()
    page = open_lab(pages, server)
    page.click(".od-past:has-text('paused') [data-kind=resume]")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=90_000)
    assert "12 of 12" in page.inner_text("#od-drift-progress")


def test_a_schedule_that_makes_no_sense_is_refused_in_a_sentence(server, pages):
    page = open_lab(pages, server)
    choose(page, "#od-schedule", "My own schedule")
    write(page, "#od-own textarea", "tiny-target-a, dialogue")
    page.click("#od-drift-start")
    page.wait_for_selector("#od-said >> text=Part 1 needs a model")
    write(page, "#od-own textarea", "no-such-model, dialogue, 3")
    page.click("#od-drift-start")
    page.wait_for_selector("#od-said >> text=no-such-model")
