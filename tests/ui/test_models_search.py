"""Searching the Hub from the models page, in a real browser: what fits, what it takes, which drafter maps best."""

from __future__ import annotations

import pytest
from tokenizers import pre_tokenizers

from omnidraft.app.hub_drafters import DRAFTERS
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.app.test_hub_search import tokenizer
from tests.ui.chatting import choose, said, write
from tests.ui.conftest import SETTINGS
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def hub():
    made = StubHub({"again-f16.gguf": (BUNDLED_MODELS / "tiny-target-a-f16.gguf").read_bytes()})
    made.listed = [
        {"id": REPO, "downloads": 1234, "gguf": {"total": 10_000_000}},
        {"id": "some/colossus", "downloads": 9, "gguf": {"total": 9_000_000_000_000}},
    ]
    made.tokenizers = {DRAFTERS[0][0]: tokenizer(sorted(pre_tokenizers.ByteLevel.alphabet()))}
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
    page.click("#od-hub-drafters")
    said(page, "by their vocabularies alone")
    page.click("#od-hub-found input")
    first = page.locator("[role=option]").first.inner_text()
    assert first.startswith(DRAFTERS[0][0])
    assert "map directly" in first
