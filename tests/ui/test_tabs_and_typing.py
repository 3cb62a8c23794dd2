"""Tabs that follow each other, what a person typed, and keys that belong to an input method: in a real browser."""

from __future__ import annotations

import pytest

from omnidraft.profiles.folders import create_profile
from omnidraft.storage.paths import find_data_home
from tests.serving import served
from tests.ui.chatting import arrived, ask, new_chat, questions
from tests.ui.conftest import SETTINGS, kept_page

brief = served(settings=SETTINGS.replace("max_tokens = 48", "max_tokens = 5"))
page = kept_page("brief")
COMPOSED = """(field) => field.dispatchEvent(new KeyboardEvent("keydown",
  {key: "Enter", code: "Enter", keyCode: 229, which: 229, bubbles: true, cancelable: true}))"""


def test_a_question_shows_in_every_tab_of_its_conversation(brief, page, kept_pages):
    first = page
    new_chat(first)
    ask(first, "One")
    second = kept_pages.open(brief, first.url.removeprefix(brief.origin), context=first.context)
    arrived(second)
    ask(first, "Two")
    second.wait_for_function("document.querySelectorAll('#od-chat .user-row').length === 2")
    assert questions(second) == ["One", "Two"]
    assert second.locator("#od-chat .bot-row .od-turn").count() == 2
    new_chat(first)
    ask(first, "Elsewhere")
    second.wait_for_selector("#od-rows .od-item >> text=Elsewhere")
    assert questions(second) == ["One", "Two"], "it stays where it is"
    second.close()


def test_a_tab_follows_another_profile(brief, pages):
    page = pages.open(brief)
    arrived(page)
    was = page.get_attribute("#od-marks", "data-chat")
    create_profile(find_data_home(brief.data / "home"), "other")
    page.evaluate("document.cookie = 'omnidraft_profile=other;path=/'")
    page.wait_for_function("was => (document.getElementById('od-marks')?.dataset.chat || was) !== was", arg=was)
    assert "not here any more" not in page.inner_text("#od-main")


def test_what_was_typed_is_shown_as_it_was_typed(page):
    new_chat(page)
    typed = "Use *stars* and _lines_:\n    # four spaces\n\n- a - b\n1. c $5 $6 `d` https://a.b/c_d_e <b>"
    ask(page, typed)
    assert page.locator("#od-chat .user-row .message").inner_text().rstrip() == typed
    assert not page.locator("#od-chat .user-row .message :is(em, strong, code, h1, li, a, b)").count()


def test_the_message_that_is_edited_is_marked_until_that_ends(page):
    new_chat(page)
    ask(page, "One")
    page.hover("#od-chat .user-row")
    page.click("#od-chat .user-row [title='Edit']")
    page.wait_for_selector("#od-chat .user-row.od-edited")
    page.click("#od-cancel")
    page.wait_for_selector("#od-chat .user-row.od-edited", state="detached")


@pytest.mark.parametrize("box", ["message", "rename"])
def test_enter_of_an_input_method_does_nothing_in_any_box(page, box):
    new_chat(page)
    if box == "rename":
        page.hover("#od-rows .od-item[aria-current]")
        page.click("#od-rows .od-item[aria-current] [data-kind=rename]")
        field = "#od-rows .od-item input:not([type])"
    else:
        field = "#od-box textarea"
    page.fill(field, "にほ")
    page.eval_on_selector(field, COMPOSED)
    page.wait_for_timeout(600)
    assert page.input_value(field) == "にほ"
    assert not questions(page)
