"""The models page in a real browser: models listed, loaded, downloaded, found where other programs keep theirs."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator

import pytest

from omnidraft.storage.paths import BUNDLED_MODELS
from tests.backends.seeing import needs_eyes, vision_model
from tests.ui.chatting import choose, field, said, settle, write
from tests.ui.conftest import SETTINGS
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def hub(models) -> Iterator[StubHub]:
    made = StubHub({"tiny-again-f16.gguf": (models / "tiny-target-a2-f16.gguf").read_bytes()})
    yield made
    made.close()


def test_models_are_listed_loaded_and_unloaded(server, pages):
    page = pages.open(server, "/models")
    card = ".od-models li:has(h3:text-is('tiny-target-b'))"
    page.wait_for_selector(card)
    assert page.inner_text(f"{card} p >> nth=0").split() == ["14.1", "MB", "fits", "text", "only"]
    left = ".map(e => Math.round(e.getBoundingClientRect().left))"  # with a button or without, in one column
    assert len(set(page.evaluate(f"[...document.querySelectorAll('.od-models > li > p')]{left}"))) == 1
    assert not page.is_visible(f"{card} >> text=architecture")
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{card} >> text=architecture")
    text = page.inner_text(card)
    for word in ("llama", "F16", "qwen2", "1,024", "MB at"):
        assert word in text
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Enter")
    said(page, "tiny-target-b answers")
    page.wait_for_selector(f"{card} .od-tag")
    page.wait_for_selector(f"{card} [data-kind=unload]:focus")
    assert "in memory" in page.inner_text(card)
    page.click(f"{card} [data-kind=unload]")
    said(page, "Unloaded")


@pytest.mark.browser_slow
def test_a_model_is_downloaded_stopped_continued_and_found(make_server, pages, hub):
    hub.delay = 0.15
    server = make_server(settings=SETTINGS, HF_ENDPOINT=hub.endpoint, HF_TOKEN="hf_secret")
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    write(page, "#od-repo input", "nobody/nothing")
    page.click("#od-look")
    said(page, "There is no public repository named nobody/nothing")
    write(page, "#od-repo input", REPO)
    page.click("#od-look")
    page.click("#od-fetch")
    page.wait_for_function("document.querySelector('#od-downloads').innerText.includes('MB of')")
    page.wait_for_timeout(700)
    page.click(".od-download button >> text=Stop")
    page.wait_for_selector(".od-download[data-state=cancelled]")
    part = server.data / "home/models/tiny-again-f16.gguf.part"
    assert 0 < part.stat().st_size < len(hub.files["tiny-again-f16.gguf"])
    hub.delay = 0.0
    page.click(".od-download button >> text=Continue")
    page.wait_for_selector(".od-download[data-state=done]")
    assert hub.ranges[-1] > 0
    whole = (server.data / "home/models/tiny-again-f16.gguf").read_bytes()
    assert hashlib.sha256(whole).digest() == hashlib.sha256(hub.files["tiny-again-f16.gguf"]).digest()
    page.wait_for_selector(".od-models >> text=tiny-again-f16.gguf", state="attached")
    assert not any("hf_secret" in value for headers in hub.headers for value in headers.values())


@pytest.mark.browser_slow
def test_how_models_are_loaded_is_set_beside_them(server, pages):
    page = pages.open(server, "/models")
    card = ".od-models li:has(h3:text-is('tiny-target-b'))"
    page.click(f"{card} summary")
    settle(page, "model.n_ctx", "512")
    page.wait_for_selector(f"{card} >> text=at 512 tokens")
    settle(page, "model.n_ctx", "7")
    said(page, "must be")
    settle(page, "model.n_ctx", "4096")
    page.wait_for_selector(f"{card} >> text=at 1,024 tokens")
    assert page.is_disabled(f"{field('model.n_gpu_layers')} input")


@pytest.mark.browser_slow
def test_models_of_other_programs_are_listed_when_they_are_allowed(make_server, pages, models, tmp_path):
    blob = tmp_path / "ollama/blobs/sha256-abc"
    manifest = tmp_path / "ollama/manifests/registry.ollama.ai/library/tiny/2b"
    for path in (blob, manifest):
        path.parent.mkdir(parents=True)
    blob.write_bytes((models / "tiny-target-b-f16.gguf").read_bytes())
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:abc"}
    manifest.write_text(json.dumps({"layers": [layer]}))
    server = make_server(OLLAMA_MODELS=str(tmp_path / "ollama"), HOME=str(tmp_path))
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    card = ".od-models li:has(h3:text-is('tiny:2b'))"
    assert page.locator(card).count() == 0
    page.click("#od-programs label:has-text('Ollama')")
    page.wait_for_selector(card)
    page.click("#od-programs label:has-text('LM Studio')")
    page.wait_for_selector("#od-where >> text=LM Studio: it keeps no models")
    page.click(f"{card} [data-kind=use]")
    page.wait_for_selector(f"{card} .od-tag >> text=loaded")
    page.reload()
    page.wait_for_selector(card)
    assert page.is_checked("#od-programs label:has-text('Ollama') input")
    assert not page.is_checked("#od-programs label:has-text('Hugging Face') input")
    page.click("#od-programs label:has-text('Ollama')")
    page.wait_for_selector(card, state="detached")


@needs_eyes
@pytest.mark.browser_slow
def test_what_a_model_sees_through_is_chosen_in_its_row(make_server, pages):
    server = make_server()
    model, _ = vision_model(server.data / "home/models", "llava")
    page = pages.open(server, "/models")
    row = f".od-models li:has(details[data-file='{model}'])"
    page.wait_for_selector(f"{row} >> text=sees pictures")
    page.click(f"{row} summary")
    chooser = f"{row} select"
    assert "automatic: mmproj-tiny-llava-f32.gguf" in page.inner_text(chooser)
    page.select_option(chooser, "none")
    said(page, "Kept")
    page.wait_for_selector(f"{row} >> text=text only")
    page.click(f"{row} [data-kind=use]")
    said(page, "answers from here on")
    page.reload()
    page.wait_for_selector(f"{row} >> text=text only")
    page.click(f"{row} summary")
    assert "tiny-target-a2" not in page.inner_text(chooser)  # that one is made for wider models
    page.select_option(chooser, "")
    said(page, "load the model again")
    page.wait_for_selector(f"{row} >> text=sees pictures")


@pytest.mark.browser_slow
def test_a_file_is_listed_by_its_path_and_stays_where_it_is(make_server, pages, models, tmp_path):
    file = tmp_path / "elsewhere" / "mine.gguf"
    file.parent.mkdir()
    shutil.copy(models / "tiny-target-b-f16.gguf", file)
    page = pages.open(make_server(), "/models")
    page.wait_for_selector(".od-models li")
    write(page, "#od-by-path input, #od-by-path textarea", str(file.with_name("no.gguf")))
    page.click("#od-by-path-add")
    said(page, f"There is no folder or file {file.with_name('no.gguf')}")
    write(page, "#od-by-path input, #od-by-path textarea", str(file))
    page.keyboard.press("Enter")
    said(page, "mine.gguf is listed, and read where it lies")
    page.reload()
    page.click(".od-models li:has(h3:text-is('mine')) [data-kind=use]")
    said(page, "mine answers from here on")


@pytest.fixture
def found():
    made = StubHub({"again-f16.gguf": (BUNDLED_MODELS / "tiny-target-a-f16.gguf").read_bytes()})
    made.listed = [
        {"id": REPO, "downloads": 1234, "gguf": {"total": 10_000_000}},
        {"id": "some/colossus", "downloads": 9, "gguf": {"total": 9_000_000_000_000}},
    ]
    yield made
    made.close()


@pytest.mark.browser_slow
def test_a_model_is_found_by_name(make_server, pages, found):
    server = make_server(settings=SETTINGS, HF_ENDPOINT=found.endpoint)
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    assert found.headers == []  # nothing is asked before a button is pressed
    write(page, "#od-hub-words input, #od-hub-words textarea", "tiny")
    page.click("#od-hub-search")
    said(page, "1 found. 1 more would not fit into memory.")
    choose(page, "#od-hub-found", "1,234 downloads")
    page.wait_for_function("name => document.querySelector('#od-repo input').value === name", arg=REPO)
    page.click("#od-look")
    page.wait_for_function("(document.querySelector('#od-files input')?.value || '').includes('again-f16.gguf')")
