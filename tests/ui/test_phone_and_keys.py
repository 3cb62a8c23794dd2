"""The chat page with a phone's width, with a keyboard alone, and with more conversations than fit on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.chats import ChatStore
from tests.serving import served
from tests.ui.chatting import answers, arrived, ask, choose, new_chat, questions, tab, wait_idle

MANY = 60
LONG = "Supercalifragilisticexpialidocious_and_a_name_without_any_place_to_break_it"


def with_many(profile: Path) -> None:
    with ChatStore(profile / "chats.sqlite") as store:
        for number in range(MANY):
            chat = store.create(f"{LONG if number % 7 == 0 else 'Conversation'} {number}")
            store.append(chat.id, "user", f"Question {number}")
            store.append(chat.id, "assistant", f"Answer {number}, with `{LONG}/{LONG}` in it.")


server = served(before=with_many, PAUSE="0.3")  # its answers take a while


def inside(page, *selectors: str) -> None:
    """Each of them is seen whole, and a finger could hit it."""
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    for selector in selectors:
        box = page.locator(selector).first.bounding_box()
        assert box is not None, selector
        assert box["x"] >= 0, selector
        assert box["x"] + box["width"] <= width, selector
        assert box["y"] >= 0, selector
        assert box["y"] + box["height"] <= height, selector
        assert min(box["width"], box["height"]) >= 24, f"{selector} is too small: {box}"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_all_of_the_chat_is_within_reach(server, pages):
    page = pages.open(server, width=390, height=844)
    page.emulate_media(reduced_motion="reduce")  # what slides in is there at once
    arrived(page)
    page.click("[data-od=side]")
    inside(page, "#od-new", "#od-search input", ".od-nav a >> nth=5", "#od-rows .od-row", "#od-import")
    page.click("#od-new")
    page.wait_for_selector("#od-new", state="hidden")
    page.wait_for_selector(".od-empty")
    inside(page, "[data-od=side]", "#od-target input", "#od-spec label", "[data-od=aside]")
    inside(page, "#od-chat .example >> nth=2")
    page.fill("#od-box textarea", "Tell me about your day, please")
    page.click("#od-send")
    page.wait_for_selector("#od-stop", state="visible")
    inside(page, "#od-stop", "#od-box textarea", "#od-attach")
    page.wait_for_selector("#od-chat .bot-row .message p:not(:has(em))")  # not what stands there before it begins
    page.click("#od-stop")
    wait_idle(page)
    inside(page, "#od-send", "#od-chat .bot-row .od-turn button[title=Copy]")
    page.click("#od-chat .user-row button[title=Edit]")
    page.wait_for_selector("#od-cancel", state="visible")
    inside(page, "#od-cancel", "#od-send", "#od-box textarea")
    page.click("#od-cancel")
    page.wait_for_selector("#od-cancel", state="hidden")
    choose(page, "#od-target", "tiny-target-b")
    page.wait_for_selector("#od-notice >> text=answers from here on")
    page.click("[data-od=side]")
    page.click("#od-rows .od-row:has-text('Conversation 58')")
    page.wait_for_selector("#od-chat .user-row >> text=Question 58")
    page.wait_for_selector("#od-side", state="hidden")
    assert page.locator("#od-line").inner_text() == "", "numbers belong to the conversation that is shown"
    page.click("[data-od=aside]")
    tab(page, "Options")
    inside(page, "#od-preset", "#od-tabs button[role=tab] >> nth=2")


FOCUSED = """() => {
  const e = document.activeElement;
  const around = [e, e.closest('#od-composer'), e.closest('label'), e.closest('.wrap')].filter(Boolean);
  const marked = (s) => (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== 'none';
  const ring = getComputedStyle(e), reach = parseFloat(ring.outlineWidth) + parseFloat(ring.outlineOffset);
  const list = e.closest('#od-rows')?.getBoundingClientRect(), at = e.getBoundingClientRect();
  return {cut: !!list && ring.outlineStyle !== 'none' && (at.left - reach < list.left || at.right + reach > list.right),
          name: e.getAttribute('aria-label') || e.labels?.[0]?.innerText.trim() || e.innerText?.trim() || e.title || '',
          tag: e.tagName, marked: around.some((one) => marked(getComputedStyle(one)))};
}"""


def steps(page, most: int) -> list[dict]:
    """What Tab comes to, one after another, until it leaves the page."""
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUSED)
        if here["tag"] == "BODY":
            break
        found.append(here)
    return found


@pytest.mark.browser_slow
def test_a_keyboard_comes_to_everything_in_the_order_of_the_page(make_server, pages):
    page = pages.open(make_server())
    new_chat(page)
    ask(page, "What is 23 + 45?")
    page.add_style_tag(content="* { transition: none !important; }")  # rings as they are in the end
    page.focus(".od-nav a")
    found = steps(page, 80)
    names = [step["name"] for step in found]
    order = ["Models", "Profiles", "New chat", "Search conversations", "What is 23 + 45?", "Markdown", "Model",
             "Drafting", "Answer again", "Message", "Send", "Speed"]  # fmt: skip
    at = [names.index(wanted) if wanted in names else None for wanted in order]
    assert None not in at, dict(zip(order, at, strict=True))
    assert at == sorted(at), names
    assert not [step for step in found if not step["name"]], "every stop says what it is"
    assert not [step["name"] for step in found if not step["marked"]], "and one sees where one is"
    assert not [step["name"] for step in found if step["cut"]], "whole, in the list too"


def test_a_conversation_is_led_with_keys_alone(server, pages):
    page = pages.open(server)
    arrived(page)
    page.keyboard.press("Control+Shift+O")
    page.wait_for_selector(".od-empty")
    page.keyboard.type("What is 23 + 45?")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-stop", state="visible")
    page.wait_for_function("(document.querySelector('#od-chat .bot-row .message')?.innerText || '').length > 3")
    page.keyboard.press("Escape")
    wait_idle(page)
    assert questions(page) == ["What is 23 + 45?"]
    assert answers(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("Question 41")
    page.wait_for_function("document.querySelectorAll('#od-rows .od-row').length === 1")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-chat .user-row >> text=Question 41")
    page.focus("#od-tabs button[role=tab]:has-text('Options')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-system textarea", state="visible")
    page.focus("#od-chat .user-row .od-turn button[title^=Delete]")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the button that keeps is where one lands
    assert questions(page) == ["Question 41"]
