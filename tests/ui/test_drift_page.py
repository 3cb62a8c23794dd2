"""The drift lab in a real browser: a run to its plot, stopped, exported; it outlives the page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.lab.traces import state_of
from tests.real import QWEN, SMOL, real_model
from tests.serving import SETTINGS
from tests.ui.chatting import choose, write
from ui.drift.page import table


def test_a_speedup_is_shown_with_its_interval_and_not_of_too_few_prompts():
    state = state_of([(1, 10)] * 2, [(1, 10)] * 4)
    for number, plain in enumerate((50.0, 40.0, 80.0, 50.0), 2):
        state.points[number] = replace(state.points[number], plain_tokens_per_second=plain)
    few, enough = table(state).split("<tr>")[-2:]
    assert few.endswith("<td>–</td></tr>")
    assert "<td>1.94× [1.44, 2.38]</td></tr>" in enough


def open_lab(pages, server):
    page = pages.open(server, "/drift-lab")
    page.wait_for_selector("#od-drift-runs p, .od-past")
    return page


def test_a_run_goes_to_its_plot_and_leaves_as_files(server, pages, tmp_path):
    page = open_lab(pages, server)
    assert page.is_checked("#od-drift-learning input")
    assert int(page.input_value("#od-count input")) >= 60
    page.uncheck("#od-drift-learning input")
    write(page, "#od-count input", "3")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished]", timeout=90_000)
    page.wait_for_selector(".od-story >> text=Then the task changed to tiny-target-a, code")
    frame = page.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#od-drift-table .od-scroll'))")
    assert frame[0] <= frame[1]
    page.hover("#od-drift-table .od-tip:text-is('recovered after')")
    page.wait_for_selector("#od-bubble >> text=95%")
    assert page.locator(".od-plot circle").count() > 2
    assert page.locator(".od-plot .od-switch").count() == 2, "one in each plot"
    assert "math" in page.inner_text(".od-scroll")
    assert "code" in page.inner_text(".od-scroll")
    for kind in ("csv", "json", "svg"):
        with page.expect_download() as download:
            page.click(f"#od-drift-links >> text={kind.upper()}")
        download.value.save_as(tmp_path / kind)
    assert len((tmp_path / "csv").read_text().splitlines()) == 7
    assert len(json.loads((tmp_path / "json").read_text())["points"]) == 6
    assert (tmp_path / "svg").read_text().startswith("<svg ")


def own_schedule(page, parts: str) -> None:
    choose(page, "#od-schedule", "My own schedule")
    write(page, "#od-own textarea", parts)


@pytest.mark.browser_slow
def test_the_drafter_learns_in_a_run_and_two_runs_are_compared(server, pages):
    page = open_lab(pages, server)
    own_schedule(page, "tiny-target-a, math, 10\ntiny-target-a, math, 6")
    page.check("#od-drift-learning input")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=finished] >> text=my own: 16 of 16", timeout=200_000)
    with page.expect_download() as download:
        page.click("#od-drift-links >> text=JSON")
    points = json.loads(download.value.path().read_text())["points"]
    assert points[0]["adapter"] is None
    assert points[-1]["adapter"]
    page.uncheck("#od-drift-learning input")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-past:has-text('shown'):has-text('no learning')")
    page.wait_for_selector(".od-run[data-status=finished] >> text=my own: 16 of 16", timeout=200_000)
    page.click(".od-past:has-text(', learning') [data-kind=compare]")
    page.wait_for_selector(".od-keys >> text=compared with")


def test_two_real_models_come_before_the_toys(make_server, pages):
    folder = real_model(QWEN).parent
    if real_model(SMOL).parent != folder:
        pytest.skip(f"{SMOL} does not lie beside {QWEN}")
    settings = f'target = "{real_model(SMOL)}"\nmodel_folders = ["{folder}"]\n\n{SETTINGS}'
    page = open_lab(pages, make_server(settings=settings))
    page.wait_for_function("document.querySelector('#od-schedule input').value.startsWith('Another model: SmolLM2')")
    assert "Qwen2.5-Coder" in page.input_value("#od-schedule input")
    assert page.input_value("#od-count input") == "20"
    page.click("#od-schedule input")
    offered = page.locator("#od-schedule [role=option]").all_inner_texts()
    assert "Another task" in offered[1]
    assert [("Quick, with toys" in text) for text in offered] == [False, False, True, True, True, False]
