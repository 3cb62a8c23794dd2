"""The Settings page in a browser: every setting has its place and help, a change says what it takes, all is kept."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from omnidraft.settings.config import AppSettings, describe
from tests.ui.chatting import arrived, ask, choose, said, tab, unfold, write
from ui.settings import cache_html

# The Models page has these.
ELSEWHERE = ("target", "drafter", "model_folders", "model_programs", "model.workers", "projectors")


def field(name: str) -> str:
    return f"#od-set-{name.replace('.', '-')}"


def open_settings(pages, server, path: str = "/settings"):
    page = pages.open(server, path)
    page.wait_for_selector("#od-cache p, .od-facts")
    unfold(page)
    return page


def settle(page, name: str, text: str) -> None:
    write(page, f"{field(name)} input", text)
    page.keyboard.press("Enter")


def stored(server) -> dict:
    return tomllib.loads((server.data / "home/profiles/default/settings.toml").read_text())


def test_every_setting_has_a_field_with_a_line_of_help(server, pages):
    page = open_settings(pages, server)
    for setting in describe(AppSettings):
        if setting.name not in ELSEWHERE:
            help_text = page.inner_text(f"{field(setting.name)} .info-text")
            assert len(help_text) > 15, setting.name


def test_what_experts_set_is_folded_and_found_by_its_words_or_its_address(server, pages):
    page = pages.open(server, "/settings")
    page.wait_for_selector("#od-cache p, .od-facts")
    layers = {setting.name: setting.rule.expert for setting in describe(AppSettings) if setting.name not in ELSEWHERE}
    assert sum(layers.values()) > len(layers) / 2
    for name, expert in layers.items():
        assert page.is_visible(field(name)) != expert, name
    page.fill("#od-find", "rejection coupled")
    page.wait_for_selector(field("draft.verification"))
    assert page.locator(".od-setting >> visible=true").count() == 1
    page.fill("#od-find", "nothing like it")
    page.wait_for_selector("#od-found >> text=No setting has these words")
    page.fill("#od-find", "")
    page.wait_for_selector(field("draft.verification"), state="hidden")
    assert page.is_visible(field("theme"))
    page.goto(f"{server.origin}/learning")
    page.goto(f"{server.origin}/settings{field('learning.loss')}")
    page.wait_for_selector(field("learning.loss"))
    in_view = "e => document.querySelector(e).getBoundingClientRect().top < innerHeight"
    page.wait_for_function(in_view, arg=field("learning.loss"))
    assert not page.is_visible(field("draft.verification")), "another group stays folded"


def test_options_beside_the_chat_have_the_same_names_and_layers(server, pages):
    page = pages.open(server)
    arrived(page)
    tab(page, "Options")
    usual = ["System prompt", "Sampling", "Temperature", "Longest answer (tokens)"]
    assert page.locator("#od-options [data-testid=block-info] >> visible=true").all_inner_texts() == usual
    unfold(page)
    shown = page.locator("#od-options [data-testid=block-info] >> visible=true").all_inner_texts()
    assert shown == [*usual, "Top-p", "Min-p", "Top-k", "Repetition penalty", "Seed", "Form of answers"]
    page.goto(server.origin + "/settings")
    page.wait_for_selector("#od-cache p, .od-facts")
    unfold(page)
    names = page.locator(".od-setting [data-testid=block-info]").all_inner_texts()
    assert set(shown) - {"System prompt", "Sampling"} <= set(names)


def test_the_n_grams_used_most_are_shown_and_unused_ones_are_not():
    stats = {"entries": 2, "seeded": 1, "bytes": 200, "hit_rate": 0.5, "evictions": 0}
    used = [(b" the\n", 3, (1, 2)), (b"never", 0, (4, 5))]
    cache = SimpleNamespace(stats=lambda: stats, top=lambda n: used[:n])
    html = cache_html(SimpleNamespace(assistant=SimpleNamespace(loaded=SimpleNamespace(cache=cache))))
    assert "<code>&nbsp;the↵</code>3" in html
    assert "never" not in html


@pytest.mark.browser_slow
def test_what_learning_needs_is_kept_over_a_restart(make_server, pages):
    server = make_server()
    page = open_settings(pages, server)
    choose(page, field("learning.loss"), "hybrid")
    said(page, "Loss: kept")
    settle(page, "learning.rank", "16")
    said(page, "Rank: kept")
    settle(page, "learning.rank", "1000")
    said(page, "must be a whole number from 1 to 256")
    settle(page, "model.n_ctx", "2,048")
    said(page, "Context length: kept")
    page.close()
    server.stop()
    server.start()
    page = open_settings(pages, server)
    page.wait_for_function("document.querySelector('#od-set-learning-rank input').value === '16'")
    assert page.input_value(f"{field('learning.loss')} input") == "hybrid"
    assert page.input_value(f"{field('model.n_ctx')} input") == "2048"
    assert stored(server)["learning"] == {**stored(server)["learning"], "loss": "hybrid", "rank": 16}


def test_the_cache_shows_what_it_is_used_for_and_what_takes_a_reload_says_so(server, pages):
    page = pages.open(server)
    arrived(page)
    ask(page, "Tell me about your day.")
    page.goto(server.origin + "/settings")
    page.wait_for_selector(".od-facts")
    unfold(page)
    for word in ("n-grams", "of them seeded", "hit rate"):
        assert word in page.inner_text(".od-facts")
    settle(page, "model.n_ctx", "2,048")
    said(page, "load the model again")
    page.click("#od-reload")
    said(page, "Loaded again")
    settle(page, "cache.capacity", "500")
    said(page, "kept and applied")
    page.uncheck(f"{field('cache.enabled')} input")  # what is not opened cannot be switched on again without the model
    said(page, "Merge n-grams: kept; load the model again")
