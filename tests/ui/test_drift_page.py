"""The drift lab in a real browser: a run to its plot and its table, stopped; it outlives the page."""

from __future__ import annotations

import pytest

from tests.real import QWEN, SMOL, real_model
from tests.serving import SETTINGS
from tests.ui.chatting import write


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
    write(page, "#od-count input", "3")
    page.click("#od-drift-start")
    page.wait_for_selector(".od-run[data-status=running]")
    page.reload()
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
