"""What somebody does in a first week, in a browser: turns, versions, addresses, thoughts, an app restarted."""

from __future__ import annotations

import re

import pytest

from tests.serving import served
from tests.ui.chatting import answers, arrived, ask, new_chat, questions, wait_idle


@pytest.mark.browser_slow
def test_a_turn_is_deleted_an_answer_edited_and_a_conversation_forked(server, pages):
    page = pages.open(server)
    new_chat(page)
    for text in ("What is 23 + 45?", "What is 12 + 7?"):
        ask(page, text)
    page.locator("#od-chat .bot-row >> nth=-1").locator("button[title='Edit']").click()
    page.wait_for_selector("#od-cancel", state="visible")
    page.fill("#od-box textarea", "Nineteen, I say.")
    page.click("#od-send")
    page.wait_for_selector("#od-chat .bot-row >> text=Nineteen, I say.")
    page.wait_for_selector("#od-chat .bot-row >> text=2 / 2")
    page.locator("#od-chat .bot-row >> nth=0").locator("button[title^='Go on from here']").click()
    page.wait_for_selector("#od-notice >> text=the other one stays as it was")
    page.wait_for_function("document.querySelectorAll('#od-chat .user-row').length === 1")
    page.locator("#od-chat .user-row .od-turn button[title^=Delete]").click()
    page.click(".od-turn-sure button:has-text('Delete')")
    page.wait_for_selector("#od-notice >> text=The question and its answers were deleted")
    page.wait_for_selector(".od-empty")
    page.click("#od-rows .od-row >> nth=1")
    page.wait_for_selector("#od-chat .bot-row >> text=Nineteen, I say.")
    assert len(questions(page)) == 2, "the other one stayed as it was"


@pytest.mark.browser_slow
def test_ctrl_c_with_a_tab_open_is_quiet_and_what_was_written_is_there_again(make_server, pages):
    server = make_server()
    page = pages.open(server)
    new_chat(page)
    ask(page, "Before")
    before = answers(page)
    page.fill("#od-box textarea", "Not sent yet")
    assert server.stop() == 130
    assert "Traceback" not in server.log
    server.start()
    page.reload()
    arrived(page)
    page.wait_for_function("document.querySelector('#od-box textarea').value === 'Not sent yet'")
    assert answers(page) == before


SAYS = "<think>Let me see the map first, slowly and with care.</think>It is far.|Not so" + " far" * 300
thinking = served(SAYS=SAYS, PAUSE="0.12")


@pytest.mark.browser_slow
def test_thoughts_fold_while_they_stream_and_a_running_answer_is_marked_and_stopped_in_the_list(thinking, pages):
    page = pages.open(thinking)
    new_chat(page)
    ask(page, "How far is it?", wait=False)
    page.wait_for_selector("#od-chat .thought-group >> text=Thinking")
    page.wait_for_selector("#od-chat .thought-group >> text=Thoughts")
    page.wait_for_selector("#od-chat .bot-row >> text=It is far.")
    wait_idle(page)
    ask(page, "Is it really?", wait=False)
    page.wait_for_selector("#od-chat .bot-row >> text=Not so")
    page.click("#od-new")
    page.wait_for_selector("#od-rows .od-writing")
    page.wait_for_selector("#od-send")  # the new conversation is not the one that is answered
    page.click("#od-rows .od-writing")
    page.wait_for_selector("#od-rows .od-writing", state="detached")


ONE, TWO = "What is 2 + 3?", "What is OmniDraft?"


def shows(page, question: str) -> None:
    page.wait_for_function("t => document.title === t", arg=f"{question} · OmniDraft")
    page.wait_for_selector(f"#od-chat .user-row >> text={question}")


@pytest.mark.browser_slow
def test_conversations_have_addresses_that_back_forward_and_other_tabs_follow(server, pages):
    page = pages.open(server)
    new_chat(page)
    ask(page, ONE)
    assert page.inner_text(".bot-row .od-turn .od-model") == "tiny-target-a"
    shows(page, ONE)
    first = page.url
    assert re.fullmatch(re.escape(server.origin) + "/c/[0-9a-f]{32}", first)
    new_chat(page)
    page.wait_for_url(lambda url: url != first)
    ask(page, TWO)
    shows(page, TWO)
    second = page.url
    page.go_back()
    shows(page, ONE)
    assert page.url == first
    page.go_forward()
    shows(page, TWO)
    assert page.url == second
    with page.context.expect_page() as opened:
        page.click(f"#od-rows .od-row:has-text('{ONE}')", modifiers=["Control"])
    arrived(opened.value)
    shows(opened.value, ONE)
    assert questions(page) == [TWO]
    page.reload()  # what another tab shows is not its business
    arrived(page)
    shows(page, TWO)
    page.goto(f"{server.origin}/c/{'0' * 32}")
    page.wait_for_selector("#od-notice .od-bad >> text=not here any more")
    assert page.url in (first, second)
    page.goto(server.origin + "/settings")
    page.wait_for_function("document.title === 'Settings · OmniDraft'")
    page.go_back()
    arrived(page)
    assert page.url in (first, second)
