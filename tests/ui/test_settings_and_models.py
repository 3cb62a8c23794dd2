"""The settings and models pages in a real browser: what is changed there takes effect and stays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest

from omnidraft.app.speeds import SPEED_FILE, SpeedStore, speed_key
from omnidraft.decoding.depth import CostModel, PairStats
from omnidraft.settings.config import ModelSettings
from tests.ui.chatting import arrived, ask, choose, said, unfold, write
from tests.ui.conftest import SETTINGS
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def hub(models) -> Iterator[StubHub]:
    made = StubHub({"tiny-again-f16.gguf": (models / "tiny-target-a2-f16.gguf").read_bytes()})
    yield made
    made.close()


def field(name: str) -> str:
    return f"#od-set-{name.replace('.', '-')}"


def settle(page, name: str, text: str) -> None:
    write(page, f"{field(name)} input", text)
    page.keyboard.press("Enter")


def test_a_smaller_cache_takes_effect_at_once_and_is_kept(server, pages):
    page = pages.open(server)
    arrived(page)
    ask(page, "Fill the cache, please.")
    page.goto(server.origin + "/settings")
    page.wait_for_selector(".od-facts")
    unfold(page)
    before = int(page.inner_text(".od-facts div:first-child b").replace(",", ""))
    assert before > 60
    choose(page, field("cache.policy"), "lfu-aging")
    said(page, "kept and applied")
    settle(page, "cache.capacity", "50")
    page.wait_for_function("document.querySelector('.od-facts b').innerText === '50'")
    page.reload()
    page.wait_for_selector(".od-facts")
    assert page.input_value(f"{field('cache.capacity')} input") == "50"
    assert page.input_value(f"{field('cache.policy')} input") == "lfu-aging"
    stored = (server.data / "home/profiles/default/settings.toml").read_text()
    assert "capacity = 50" in stored
    page.click("#od-cache-clear")
    page.click("#od-cache-yes")
    said(page, "cleared")


def test_a_refused_value_is_named_and_the_old_one_comes_back(server, pages):
    page = pages.open(server, "/settings")
    page.wait_for_selector("#od-cache p, .od-facts")
    settle(page, "sampling.temperature", "99")
    said(page, "must be a number from 0 to 10")
    page.wait_for_function("document.querySelector('#od-set-sampling-temperature input').value === '0'")
    unfold(page)
    settle(page, "draft.length", "many")
    said(page, "a whole number from 1 to 64")


def test_the_theme_is_applied_and_remembered(server, pages):
    page = pages.open(server, "/settings")
    page.wait_for_selector("#od-cache p, .od-facts")
    choose(page, field("theme"), "dark")
    page.wait_for_selector("body.dark")
    page.goto(server.origin + "/models")
    page.wait_for_selector("body.dark")
    pages.open(server, "/models").wait_for_selector("body.dark")  # another browser, without a cookie


def test_models_are_listed_loaded_compared_and_unloaded(server, pages):
    page = pages.open(server, "/models")
    card = ".od-models li:has(h3:text-is('tiny-target-b'))"
    page.wait_for_selector(card)
    assert page.inner_text(f"{card} p >> nth=0").split() == ["13.4", "MB", "fits", "text", "only"]
    assert not page.is_visible(f"{card} >> text=architecture")
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{card} >> text=architecture")
    text = page.inner_text(card)
    for word in ("llama", "F16", "qwen2", "1,024", "MB at"):
        assert word in text
    page.click(f"{card} [data-kind=coverage]")
    page.wait_for_selector(f"{card} >> text=direct with the drafter")  # the row stays unfolded
    page.focus(f"{card} [data-kind=use]")
    page.keyboard.press("Enter")
    said(page, "tiny-target-b answers")
    page.wait_for_selector(f"{card} .od-tag")
    page.wait_for_selector(f"{card} [data-kind=unload]:focus")
    assert "in memory" in page.inner_text(card)
    page.click(f"{card} [data-kind=unload]")
    said(page, "Unloaded")


def test_a_row_says_what_is_known_of_the_speed_and_who_sees(make_server, pages, models):
    server = make_server(settings=SETTINGS)
    known = PairStats(CostModel({1: 0.01}, 0.001))
    known.cost.keep()
    target = models / "tiny-target-b-f16.gguf"
    key = speed_key(target, None, ModelSettings(threads=1), None, True)
    SpeedStore(server.data / "home/cache" / SPEED_FILE).save(key, known)
    page = pages.open(server, "/models")
    row = ".od-models li:has(h3:text-is('tiny-target-b'))"
    page.wait_for_selector(f"{row} >> text=about 100 tokens/s")
    assert page.locator(".od-models >> text=tokens/s").count() == 1
    assert "sees pictures" in page.inner_text(".od-models li:has(h3:text-is('tiny-target-a2'))")


def test_a_folder_that_is_not_there_is_named(server, pages):
    page = pages.open(server, "/models")
    page.wait_for_selector(".od-models li")
    write(page, "#od-folders textarea", "/no/such/folder")
    page.click("#od-scan")
    said(page, "There is no folder or file /no/such/folder")


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


def test_the_server_looked_nothing_up(server):
    assert server.lookups == []
