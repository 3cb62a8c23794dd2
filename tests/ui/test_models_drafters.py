"""Which drafters the models page offers for a real model, and what its rows say of them, in a real browser."""

from __future__ import annotations

import pytest

from tests.real import QWEN, SMOL, real_model
from tests.ui.chatting import said
from tests.ui.conftest import SETTINGS

ROW = ".od-drafters li:has(h3:text-is('{}'))"
SMALL, LARGE = "SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct"


@pytest.fixture
def page(make_server, pages):
    folder = real_model(QWEN).parent
    if real_model(SMOL).parent != folder:
        pytest.skip(f"{SMOL} does not lie beside {QWEN}")
    settings = f'target = "{real_model(QWEN)}"\nmodel_folders = ["{folder}"]\n\n{SETTINGS}'
    page = pages.open(make_server(settings=settings), "/models")
    page.wait_for_selector(".od-models li")
    return page


def test_drafters_at_hand_are_offered_with_what_they_bring_and_take(page):
    row = page.locator(ROW.format(SMALL)).first
    assert "times plain speed" in row.inner_text()
    assert "takes " in row.inner_text()
    for nonsense in (LARGE, "tiny-target-a"):  # the target itself, and a toy
        assert page.locator(ROW.format(nonsense)).count() == 0
    assert page.locator("#od-models > ul:first-of-type button:has-text('Draft with it')").count() == 0
    row.locator("[data-kind=draft]").click()
    said(page, "SmolLM2-135M-Instruct-Q4_1 drafts from now on")
    page.wait_for_selector(f"{ROW.format(SMALL)} .od-tag:has-text('drafter')")


def test_rows_say_what_is_known_of_models_that_were_never_loaded(page):
    for name in (SMALL, LARGE, "gemma-3-270m"):
        row = page.locator(f".od-models li:has(h3:has-text('{name}'))").first
        assert "fits" in row.inner_text()
        assert "tokens/s" not in row.inner_text()
    assert page.locator("li:has(h3:has-text('gemma-3-270m')) .od-tag:has-text('base model')").count()
    page.locator(f".od-models li:has(h3:text-is('{LARGE}')) summary").first.click()
    assert page.locator(f".od-models li:has(h3:text-is('{LARGE}')) >> text=494M").count()
    assert page.locator(".od-eyes").count() == page.locator("li:has(h3:has-text('tiny-target')) .od-eyes").count() > 0


def test_a_row_says_how_far_its_model_is_and_calls_it_off(page):
    row = f".od-models li:has(h3:text-is('{LARGE}'))"
    page.click(f"{row} [data-kind=use]")
    page.wait_for_selector(f"{row} .od-doing:has-text('reading'), {row} .od-doing:has-text('checking')")
    page.click(f"{row} [data-kind=cancel]")
    said(page, "was not loaded: that was called off")
    page.wait_for_selector(f"{row} [data-kind=use]")
    assert not page.locator(".od-tag:text-is('loaded')").count()
