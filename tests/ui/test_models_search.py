"""Searching the Hub from the models page, in a real browser: what fits, what it takes, which drafter maps best."""

from __future__ import annotations

import pytest

from omnidraft.app.hub_fit import DRAFTERS
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.backends.hf_folders import write_folder
from tests.ui.chatting import arrived, ask, choose, said, write
from tests.ui.conftest import SETTINGS
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def hub():
    made = StubHub({"again-f16.gguf": (BUNDLED_MODELS / "tiny-target-a-f16.gguf").read_bytes()})
    made.listed = [
        {"id": REPO, "downloads": 1234, "gguf": {"total": 10_000_000}},
        {"id": "some/colossus", "downloads": 9, "gguf": {"total": 9_000_000_000_000}},
    ]
    yield made
    made.close()


def test_a_model_is_found_by_name_and_its_memory_is_told(make_server, pages, hub):
    server = make_server(settings=SETTINGS, HF_ENDPOINT=hub.endpoint)
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    assert hub.headers == []  # nothing is asked before a button is pressed
    write(page, "#od-hub-words input, #od-hub-words textarea", "tiny")
    page.click("#od-hub-search")
    said(page, "1 found. 1 more would not fit into memory.")
    choose(page, "#od-hub-found", "1,234 downloads")
    page.wait_for_function("name => document.querySelector('#od-repo input').value === name", arg=REPO)
    page.click("#od-look")
    page.wait_for_function("(document.querySelector('#od-files input')?.value || '').includes('of memory')")


@pytest.mark.browser_slow
def test_a_drafter_that_fits_is_fetched_and_used_by_one_button(make_server, pages, tmp_path):
    folder = write_folder(tmp_path / "tiny")
    repo = DRAFTERS[0].repo
    hub = StubHub({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}, repo)
    server = make_server(settings=SETTINGS, HF_ENDPOINT=hub.endpoint)
    page = pages.open(server)
    arrived(page)
    ask(page, "What is 2 + 3?")  # so that it is known what passes take
    page.goto(f"{server.origin}/models")
    page.click("#od-hub-drafters")
    said(page, "every second guess stands, or 62 in 100")
    (first, *others) = page.locator("#od-offers li").all()
    assert repo in first.inner_text()
    assert "map directly" in first.inner_text()
    assert "no gain expected here" in first.inner_text()  # 68M beside a target of 10M
    assert all(not other.locator("button").count() for other in others)  # the stub has no other
    first.locator("button").click()
    said(page, "llama-68m-q8_0 drafts from now on")
    page.wait_for_selector(".od-models li:has-text('llama-68m-q8_0') .od-tag:has-text('drafter')")
    hub.close()
