"""The Settings page in a browser: every setting has its place and its help, and is found by its words."""

from __future__ import annotations

from omnidraft.settings.config import AppSettings, describe
from tests.ui.chatting import field, unfold
from tests.ui.conftest import kept_page

# The Models page has these.
ELSEWHERE = ("target", "drafter", "model_folders", "model_programs", "model.workers", "projectors")


page = kept_page("server", "/settings")


def test_what_experts_set_is_folded_and_found_by_its_words_or_its_address(server, page):
    page.wait_for_selector("#od-cache p, .od-facts")
    layers = {setting.name: setting.rule.expert for setting in describe(AppSettings) if setting.name not in ELSEWHERE}
    assert sum(layers.values()) > len(layers) / 2
    for name, expert in layers.items():
        assert page.is_visible(field(name)) != expert, name
    page.fill("#od-find", "copies of earlier text")
    page.wait_for_selector(field("draft.mode"))
    assert page.locator(".od-setting >> visible=true").count() == 1
    page.fill("#od-find", "merge by the vocabularies")
    name = page.locator("#od-set-cache-seed label").bounding_box()
    words = page.locator("#od-set-cache-seed .info-text").bounding_box()
    assert words["y"] >= name["y"] + name["height"], "the sentence stands below the name, as ever"
    assert not page.is_visible("#od-cache"), "what the cache holds is no setting that was asked for"
    assert not page.is_visible("#od-cache-clear")
    page.fill("#od-find", "nothing like it")
    page.wait_for_selector("#od-found >> text=No setting has these words")
    page.fill("#od-find", "")
    page.wait_for_selector(field("draft.mode"), state="hidden")
    assert page.is_visible(field("theme"))
    page.goto(f"{server.origin}/learning")
    page.goto(f"{server.origin}/settings{field('learning.loss')}")
    page.wait_for_selector(field("learning.loss"))
    in_view = "e => document.querySelector(e).getBoundingClientRect().top < innerHeight"
    page.wait_for_function(in_view, arg=field("learning.loss"))
    assert not page.is_visible(field("draft.mode")), "another group stays folded"


def test_every_setting_has_a_field_with_a_line_of_help(page):
    unfold(page)
    for setting in describe(AppSettings):
        if setting.name not in ELSEWHERE:
            help_text = page.inner_text(f"{field(setting.name)} .info-text")
            assert len(help_text) > 15, setting.name
