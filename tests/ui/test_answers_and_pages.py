"""What an answer survives: a stop, a reload, another page; and what narrow screens offer."""

from __future__ import annotations

import pytest

from tests.serving import served
from tests.ui.chatting import answers, arrived, ask, new_chat, wait_idle

# One prompt token a step and a long answer make a bundled model slow enough to be caught in the act.
SLOW = """[model]
threads = 1
n_batch = 1

[sampling]
temperature = 1.0
seed = 4
max_tokens = 900
min_p = 0.02
repeat_penalty = 1.3

[draft]
enabled = false
"""
STORY = "Tell me a very long story about ships, storms and islands."


slow = served(settings=SLOW)


def begin(page, text: str) -> None:
    """Send a message and wait for the stop button."""
    page.fill("#od-box textarea", text)
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-stop", state="visible")


def test_a_stop_while_the_prompt_is_read(slow, pages):
    page = pages.open(slow)
    new_chat(page)
    ask(page, "Short.", wait=False)
    page.wait_for_selector("#od-send, #od-stop")
    if page.is_visible("#od-stop"):
        page.click("#od-stop")
    wait_idle(page)
    begin(page, " ".join(f"{i} ships and {i * 7} storms," for i in range(60)))
    page.click("#od-stop")
    wait_idle(page)
    # It ended at once and the next question is answered.
    ask(page, "Still there?", wait=False)
    page.wait_for_function("document.querySelectorAll('#od-chat .bot-row').length >= 2")


def test_escape_stops_an_answer_and_keeps_what_was_written(slow, pages):
    page = pages.open(slow)
    arrived(page)
    page.keyboard.press("Escape")  # an answer of the test before may still be running
    wait_idle(page)
    new_chat(page)
    begin(page, STORY)
    page.wait_for_function("(document.querySelector('#od-chat .bot-row .message')?.innerText || '').length > 3")
    page.keyboard.press("Escape")
    wait_idle(page)
    kept = answers(page)[-1]
    page.reload()
    arrived(page)
    page.wait_for_selector("#od-chat .bot-row")
    assert answers(page)[-1] == kept


def test_a_reload_and_another_page_leave_the_answer_alone(slow, pages):
    page = pages.open(slow)
    arrived(page)
    new_chat(page)
    begin(page, STORY)
    page.reload()
    arrived(page)
    page.wait_for_selector("#od-chat .bot-row")
    page.goto(slow.origin + "/settings")
    page.wait_for_selector("#od-said", state="attached")
    page.goto(slow.origin)
    arrived(page)
    wait_idle(page)
    text = answers(page)[-1]
    assert len(text) > 20
    page.reload()
    arrived(page)
    page.wait_for_selector("#od-chat .bot-row")
    assert answers(page)[-1] == text


PAGES = {
    "/": "#od-marks",
    "/models": ".od-models li",
    "/drift-lab": "#od-drift-progress p",
    "/settings": "#od-cache p, .od-facts",
    "/profiles": ".od-card",
}


@pytest.mark.browser_slow
@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_narrow_screen_and_every_control_has_a_name(server, pages, path):
    page = pages.open(server, path, width=390, height=844)
    page.wait_for_selector(PAGES[path], state="attached")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    nameless = page.evaluate(
        """[...document.querySelectorAll('#od-shell button, #od-shell input, #od-shell textarea')].filter((e) =>
        e.offsetParent && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length && !e.title)
        .map((e) => e.outerHTML.slice(0, 160))"""
    )
    assert nameless == []
