"""The Settings page in a browser: every setting has its place and help, a change says what it takes, all is kept."""

from __future__ import annotations

import tomllib

from omnidraft.config import AppSettings, describe
from tests.ui.chatting import arrived, ask, choose, said, write

ELSEWHERE = ("target", "drafter", "model_folders", "model_programs", "model.workers")  # the Models page has these


def field(name: str) -> str:
    return f"#od-set-{name.replace('.', '-')}"


def open_settings(pages, server, path: str = "/settings"):
    page = pages.open(server, path)
    page.wait_for_selector("#od-cache p, .od-facts")
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


def test_what_learning_needs_is_kept_over_a_restart(make_server, pages):
    server = make_server()
    page = open_settings(pages, server)
    choose(page, field("learning.loss"), "hybrid")
    said(page, "Loss: kept")
    settle(page, "learning.rank", "16")
    said(page, "Rank: kept")
    settle(page, "learning.replay_mb", "64")
    said(page, "Replay size (MB): kept")
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
    assert page.input_value(f"{field('learning.replay_mb')} input") == "64"
    assert page.input_value(f"{field('model.n_ctx')} input") == "2048"
    assert stored(server)["learning"] == {**stored(server)["learning"], "loss": "hybrid", "rank": 16, "replay_mb": 64}


def test_the_cache_shows_what_it_is_used_for_and_what_takes_a_reload_says_so(server, pages):
    page = open_settings(pages, server)
    choose(page, field("draft.mode"), "fixed")  # measured costs might let the drafter rest
    said(page, "kept")
    page.goto(server.origin)
    arrived(page)
    ask(page, "Where can I stay in Oakland on March 6th, and what does a table for two cost?")
    page.goto(server.origin + "/settings")
    page.wait_for_selector(".od-facts")
    for word in ("n-grams", "of them seeded", "hit rate"):
        assert word in page.inner_text(".od-facts")
    assert page.locator(".od-ngrams code").count() > 0
    settle(page, "model.n_batch", "256")
    said(page, "load the model again")
    page.click("#od-reload")
    said(page, "Loaded again")
    page.uncheck(f"{field('cache.enabled')} input")
    said(page, "kept and applied")
    page.check(f"{field('cache.enabled')} input")
    said(page, "kept and applied")
