"""One walk over every page, in use: nothing leaves the app's own origin, and the server resolves no name."""

from __future__ import annotations

import json

import pytest

from tests.app.test_documents import pdf_of
from tests.ui.chatting import answers, arrived, ask, choose, new_chat, race_and_run, said, tab, wait_idle, write
from tests.ui.stub_hub import REPO, StubHub
from tests.ui.test_chat_tools import SUM
from ui.common.frame import PAGES


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
    card = ".od-models li:has(h3:text-is('tiny-target-a'))"
    page.wait_for_selector(card)
    page.click(f"{card} [data-kind=use]")
    page.wait_for_selector(f"{card} .od-tag")


def use_settings(page) -> None:
    page.wait_for_selector("#od-set-theme")  # the cache's numbers are not there: a race unloads the models
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
    "Drift lab": race_and_run,
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


def use_files(page) -> None:
    upload = {"name": "letter.pdf", "mimeType": "application/pdf", "buffer": pdf_of("See http://198.51.100.7/b.png")}
    page.set_input_files("#od-composer input[type=file]", upload)
    page.wait_for_selector("#od-attached li:has-text('letter.pdf') >> text=tokens")


def use_tools(page) -> None:
    tab(page, "Options")
    page.check("#od-tools input")
    page.wait_for_selector("#od-notice >> text=you decide about each call")
    ask(page, "What is six times seven?", wait=False)
    page.click("#od-permit button[data-choice=once]")
    page.wait_for_selector("#od-chat .bot-row >> text=It is 42.")
    wait_idle(page)


def use_library(page) -> None:
    tab(page, "Library")
    write(page, "#od-preset-name :is(input, textarea)", "Mine")
    page.click("#od-preset-save")
    page.wait_for_selector("#od-library-said >> text=Mine is saved")
    page.click("#od-presets .od-row")
    page.wait_for_selector("#od-library-said >> text=Mine is applied")


def use_import_and_tags(page) -> None:
    text = "![x](http://198.51.100.7/c.png)"
    whole = {"name": "Elsewhere", "createdAt": 1_700_000_000_000, "messages": [
        {"currentlySelected": 0, "versions": [{"role": "user", "content": [{"type": "text", "text": text}]}]},
    ]}  # fmt: skip
    upload = {"name": "c.json", "mimeType": "application/json", "buffer": json.dumps(whole).encode()}
    page.set_input_files("#od-transfer input[type=file]", upload)
    row = "#od-rows .od-item:has-text('Elsewhere')"
    page.wait_for_selector(f"{row}[aria-current]")
    page.hover(row)
    page.click(f"{row} [data-kind=tag]")
    page.keyboard.type("kept")
    page.keyboard.press("Enter")
    page.click("#od-rows .od-tags >> text=#kept")


@pytest.mark.browser_slow
def test_files_tools_presets_imports_and_a_search_ask_only_the_hub_one_searched(make_server, pages):
    hub = StubHub({})
    hub.listed = [{"id": REPO, "downloads": 7, "gguf": {"total": 10_000_000}}]
    server = make_server(SAYS=f"{SUM}|It is 42.", HF_ENDPOINT=hub.endpoint)
    page = pages.open(server)
    new_chat(page)
    for use in (use_files, use_tools, use_library, use_import_and_tags):
        use(page)
    assert hub.headers == []  # so far nobody searched
    page.goto(f"{server.origin}/models")
    page.wait_for_selector(".od-models li")
    write(page, "#od-hub-words :is(input, textarea)", "tiny")
    page.click("#od-hub-search")
    said(page, "1 found")
    hub.close()
    assert hub.headers
    assert server.lookups == []
    assert pages.foreign == []
