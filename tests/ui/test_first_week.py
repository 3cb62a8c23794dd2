"""What somebody does in a first week, in a browser: turns, versions, addresses, thoughts, an app restarted."""

from __future__ import annotations

import re

import pytest

from tests.ui.chatting import answers, arrived, ask, new_chat, questions


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
