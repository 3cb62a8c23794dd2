"""Profiles keep apart: by choice of the browser, or by signing in."""

from __future__ import annotations

import openai
import pytest

from omnidraft.profiles.accounts import add_account
from tests.ui.chatting import arrived, ask, titles, write
from tests.ui.conftest import SETTINGS


def test_two_profiles_in_two_browsers_see_nothing_of_each_other(server, pages):
    first = pages.open(server, "/profiles")
    first.wait_for_selector(".od-card >> text=in use here")
    write(first, "#od-profile-name input", "Ada")
    first.click("#od-profile-create")
    first.wait_for_selector(".od-card h3:text-is('Ada')")
    first.click(".od-card:has(h3:text-is('Ada')) [data-kind=use]")
    arrived(first)
    ask(first, "Ada asks this")
    second = pages.open(server)
    arrived(second)
    ask(second, "The other asks that")
    assert titles(first) == ["Ada asks this"]
    assert titles(second) == ["The other asks that"]
    second.select_option(".od-who select", "Ada")
    second.wait_for_selector("#od-rows .od-item >> text=Ada asks this")
    listed = (server.data / "home/profiles").iterdir()
    assert {"Ada", "default"} <= {folder.name for folder in listed}


@pytest.mark.browser_slow
def test_a_profile_goes_only_when_its_name_is_typed(server, pages):
    page = pages.open(server, "/profiles")
    page.wait_for_selector(".od-card >> text=in use here")
    write(page, "#od-profile-name input", "Brief")
    page.click("#od-profile-create")
    card = ".od-card:has(h3:text-is('Brief'))"
    page.click(f"{card} [data-kind=delete]")
    write(page, "#od-profile-typed input", "brie")
    page.click("#od-profile-remove")
    page.wait_for_selector("#od-said >> text=nothing was deleted")
    write(page, "#od-profile-typed input", "Brief")
    page.click("#od-profile-remove")
    page.wait_for_selector("#od-said >> text=Brief was deleted")
    assert not (server.data / "home/profiles/Brief").exists()


@pytest.fixture
def guarded(make_server, tmp_path):
    file = tmp_path / "accounts"
    add_account(file, "ada", "correct horse")
    add_account(file, "grace", "battery staple")
    return make_server("--auth-file", str(file), settings=SETTINGS)


def sign_in(page, name: str, password: str) -> None:
    page.fill("input[name=name]", name)
    page.fill("input[name=password]", password)
    page.click("button")


@pytest.mark.browser_slow
def test_nothing_is_reached_without_signing_in_and_each_name_has_its_own_data(guarded, pages, browser):
    for path in ("/config", "/theme.css", "/gradio_api/info", "/export/x.json", "/v1/models"):
        assert guarded.ask("GET", path)[0] == 401, path
    assert guarded.ask("GET", "/", headers={"Accept": "text/html"})[0] == 303
    assert guarded.ask("POST", "/gradio_api/queue/join", {"data": [], "fn_index": 0})[0] == 401
    opened = []
    for name, password in (("ada", "correct horse"), ("grace", "battery staple")):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        pages.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(guarded.origin)
        sign_in(page, name, "wrong password")
        page.wait_for_selector("text=The name or the password is wrong")
        sign_in(page, name, password)
        arrived(page)
        ask(page, f"{name} was here")
        opened.append(page)
    assert [titles(page) for page in opened] == [["ada was here"], ["grace was here"]]
    # A profile cookie, which picks the profile where nobody signs in, changes nothing here.
    opened[0].evaluate("document.cookie = 'omnidraft_profile=grace;path=/'")
    opened[0].reload()
    arrived(opened[0])
    assert titles(opened[0]) == ["ada was here"]
    # Nor does the id of someone else's conversation.
    theirs = opened[1].get_attribute("#od-links a", "href")
    assert opened[0].request.get(guarded.origin + theirs).status == 404
    assert opened[1].request.get(guarded.origin + theirs).status == 200
    found = openai.OpenAI(base_url=f"{guarded.origin}/v1", api_key="ada:correct horse", max_retries=0).models.list()
    assert found.data
    opened[0].goto(guarded.origin + "/profiles")
    opened[0].click("text=Sign out")
    opened[0].wait_for_selector("input[name=password]")
