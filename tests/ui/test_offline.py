"""One walk over every page, in use: nothing leaves the app's own origin, and the server resolves no name."""

from __future__ import annotations

import pytest

from tests.ui.chatting import answers, arrived, ask, choose, tab, write
from ui.common.layout import PAGES


def use_chat(page) -> None:
    arrived(page)
    ask(page, "![x](http://198.51.100.7/a.png) Tell me about your day.")
    page.click("#od-chat .message-row:last-of-type button[title='Answer again']")
    page.wait_for_selector("text=2 / 2")
    choose(page, "#od-target", "tiny-target-b")
    page.wait_for_selector("#od-notice >> text=answers from here on")
    ask(page, "And now?")
    tab(page, "Tokens")
    assert len(answers(page)) >= 2


def use_models(page) -> None:
    card = ".od-card:has(h3:text-is('tiny-target-a'))"
    page.wait_for_selector(card)
    page.click(f"{card} [data-kind=use]")
    page.wait_for_selector(f"{card} .od-tag")


def use_drift_lab(page) -> None:
    page.wait_for_selector("#od-drift-start", state="visible")


def use_settings(page) -> None:
    page.wait_for_selector(".od-facts")
    choose(page, "#od-set-theme", "dark")
    page.wait_for_selector("body.dark")


def use_profiles(page) -> None:
    page.wait_for_selector(".od-card")
    write(page, "#od-profile-name input", "somebody")
    page.click("#od-profile-create")
    page.wait_for_selector(".od-card >> text=somebody")


USES = {
    "Chat": use_chat,
    "Models": use_models,
    "Drift lab": use_drift_lab,
    "Learning": lambda page: page.wait_for_selector("h1"),
    "Settings": use_settings,
    "Profiles": use_profiles,
}


@pytest.mark.browser_slow
def test_every_page_in_use_asks_nobody_and_looks_nothing_up(make_server, pages):
    server = make_server()
    assert server.lookups == []  # at the start
    page = pages.open(server)
    for name, path in PAGES:
        page.goto(f"{server.origin}/{path}")
        page.wait_for_selector("#od-head nav", state="attached")
        USES[name](page)
        page.wait_for_timeout(500)
    said = page.request.post(
        f"{server.origin}/v1/chat/completions",
        data={"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4},
    )
    assert said.ok, said.text()
    assert server.lookups == []
    assert pages.foreign == []
