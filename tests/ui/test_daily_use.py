"""What one meets every day on the chat page: what is typed stays where it was typed, and who scrolls up stays there."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.chats import ChatStore
from tests.serving import served
from tests.ui.chatting import answers, arrived, ask, new_chat, wait_idle

BOX = "#od-box textarea"
STORY = "What is 23 + 45 + 17?"
TALL = "Write a Python function.\n" + "\n".join(f"line {i}" for i in range(40))
OLDER = [f"Older question {number}" for number in range(4)]
SCROLLED = "document.querySelector('#od-chat .panel-wrap').scrollTop"


def with_older_ones(profile: Path) -> None:
    with ChatStore(profile / "chats.sqlite") as store:
        for text in OLDER:
            chat = store.create().id
            store.append(chat, "user", text)
            store.append(chat, "assistant", "Yes.")


slow = served(before=with_older_ones, PAUSE="0.25")  # some four tokens a second


def typed(page, text: str) -> None:
    """Keys as they come, wherever the keyboard is."""
    page.keyboard.type(text, delay=15)


def visit(page, title: str) -> None:
    page.click(f"#od-rows .od-row:has-text('{title}')")
    page.wait_for_selector(f"#od-chat .user-row >> text={title}")


def holds(page, text: str) -> None:
    page.wait_for_function(f"t => document.querySelector('{BOX}').value === t", arg=text)
    page.wait_for_timeout(700)  # what comes late must not take it away
    assert page.input_value(BOX) == text


def stop(page) -> None:
    page.evaluate("document.querySelector('#od-stop')?.click()")  # which is hidden where the answer is over
    wait_idle(page)


@pytest.mark.browser_slow
def test_what_is_typed_belongs_to_the_conversation_to_come_while_an_answer_is_written_elsewhere(slow, pages):
    page = pages.open(slow)
    arrived(page)
    page.wait_for_function(f"document.activeElement === document.querySelector('{BOX}')")
    new_chat(page)
    page.fill(BOX, "kept aside")
    visit(page, OLDER[0])
    assert page.input_value(BOX) == ""
    page.click("#od-new")
    holds(page, "kept aside")
    page.fill(BOX, STORY)
    page.press(BOX, "Enter")
    page.wait_for_selector("#od-chat .user-row", timeout=3000)  # though a model has to be loaded first
    page.wait_for_selector(f"#od-rows .od-row:has-text('{STORY}')")  # it is kept, and being answered
    page.click("#od-new")
    typed(page, "my next question")  # the keyboard is in the box already
    holds(page, "my next question")
    page.wait_for_selector(".od-empty")
    visit(page, STORY)
    assert page.input_value(BOX) == ""
    page.click("#od-new")
    holds(page, "my next question")
    page.reload()
    arrived(page)
    holds(page, "my next question")
    visit(page, STORY)
    stop(page)


@pytest.mark.browser_slow
def test_who_scrolls_up_while_an_answer_is_written_stays_there(slow, pages):
    page = pages.open(slow, height=520)
    arrived(page)
    new_chat(page)
    ask(page, TALL, wait=False)
    page.wait_for_function("(document.querySelector('#od-chat .bot-row .message')?.innerText || '').length > 12")
    page.wait_for_function(f"{SCROLLED} > 100")  # the newest line is in view
    page.hover("#od-chat")
    page.mouse.wheel(0, -40)
    page.wait_for_timeout(300)
    there, text = page.evaluate(SCROLLED), answers(page)[-1]
    page.wait_for_timeout(1500)
    assert answers(page)[-1] != text, "nothing was written meanwhile"
    assert page.evaluate(SCROLLED) == there
    page.mouse.wheel(0, 900)
    page.wait_for_function(
        "(e => e.scrollHeight - e.clientHeight - e.scrollTop < 2)(document.querySelector('#od-chat .panel-wrap'))"
    )
    stop(page)
