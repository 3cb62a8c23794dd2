"""Profiles keep apart, by choice of the browser."""

from __future__ import annotations

import pytest

from tests.ui.chatting import arrived, ask, titles, write


@pytest.mark.browser_slow
def test_two_profiles_in_two_browsers_see_nothing_of_each_other(server, pages):
    first = pages.open(server, "/profiles")
    first.wait_for_selector(".od-card >> text=in use here")
    write(first, "#od-profile-name input", "Ada")
    first.click("#od-profile-create")
    first.wait_for_selector(".od-card h3:text-is('Ada')")
    first.click(".od-card:has(h3:text-is('Ada')) [data-profile]")
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
