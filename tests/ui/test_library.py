"""Presets and prompts of one's own, in a real browser: saved, applied, inserted, renamed, deleted, carried."""

from __future__ import annotations

import json

import pytest

from tests.ui.chatting import arrived, choose, new_chat, tab, write


def library(page, server) -> dict:
    return json.loads(page.request.get(server.origin + "/library.json").text())


def wait_for_rows(page, part: str, names: list[str]) -> None:
    """Until exactly these stand in the list: a message may be drawn before what it tells of."""
    shown = "([part, all]) => [...document.querySelectorAll(part)].map(e => e.innerText.trim()).join() === all.join()"
    page.wait_for_function(shown, arg=[f"{part} .od-row span", names])


@pytest.mark.browser_slow
def test_a_preset_keeps_the_options_and_is_applied_elsewhere(server, pages):
    page = pages.open(server)
    new_chat(page)
    tab(page, "Options")
    page.fill("#od-system textarea", "Answer in one word.")
    choose(page, "#od-preset", "Lively")
    page.wait_for_function("document.querySelector('#od-temperature input').value === '1.1'")
    choose(page, "#od-target", "tiny-target-b")
    page.wait_for_selector("#od-notice >> text=tiny-target-b answers from here on")
    tab(page, "Library")
    page.click("#od-preset-save")
    page.wait_for_selector("#od-library-said >> text=Give the preset a name")
    write(page, "#od-preset-name input, #od-preset-name textarea", "One word")
    page.click("#od-preset-save")
    page.wait_for_selector("#od-library-said >> text=One word is saved")
    (kept,) = library(page, server)["presets"]
    assert (kept["system"], kept["sampling"]["temperature"]) == ("Answer in one word.", 1.1)
    assert "tiny-target-b" in kept["target"]
    choose(page, "#od-target", "tiny-target-a")
    page.wait_for_selector("#od-notice >> text=tiny-target-a answers from here on")
    tab(page, "Options")
    page.fill("#od-system textarea", "Answer at length.")
    choose(page, "#od-preset", "Exact")
    page.wait_for_function("document.querySelector('#od-temperature input').value === '0'")
    tab(page, "Library")
    page.click("#od-presets .od-row")
    page.wait_for_selector("#od-library-said >> text=One word is applied")
    page.wait_for_function("document.querySelector('#od-system textarea').value === 'Answer in one word.'")
    page.wait_for_function("document.querySelector('#od-target input').value.includes('tiny-target-b')")
    page.wait_for_function("document.querySelector('#od-temperature input').value === '1.1'")
    page.reload()
    arrived(page)
    tab(page, "Library")
    page.hover("#od-presets .od-item")
    page.click("#od-presets button[data-kind=ask-delete]")
    page.click("#od-presets .od-sure button[data-kind=delete]")
    page.wait_for_selector("#od-presets >> text=None yet")
    assert library(page, server)["presets"] == []


def test_tags_are_written_and_filter_the_list(server, pages):
    page = pages.open(server)
    arrived(page)
    for talk in ("Bread", "Boats"):
        whole = {
            "name": talk,
            "createdAt": 1_700_000_000_000,
            "messages": [
                {"currentlySelected": 0, "versions": [{"role": "user", "content": [{"type": "text", "text": talk}]}]}
            ],
        }
        upload = {"name": "c.json", "mimeType": "application/json", "buffer": json.dumps(whole).encode()}
        page.set_input_files("#od-transfer input[type=file]", upload)
        page.wait_for_selector("#od-notice >> text=1 conversation with 1 message came in from LM Studio.")
        page.wait_for_selector(f"#od-rows .od-item[aria-current] >> text={talk}")
    page.hover("#od-rows .od-item:has-text('Bread')")
    page.click("#od-rows .od-item:has-text('Bread') button[data-kind=tag]")
    page.keyboard.type("kitchen, 2024")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-rows .od-row >> text=#kitchen #2024")
    page.click("#od-rows .od-tags >> text=#kitchen")
    page.wait_for_selector("#od-rows .od-item:has-text('Boats')", state="hidden")
    assert page.is_visible("#od-rows .od-item:has-text('Bread')")
    page.click("#od-rows .od-tags >> text=#kitchen")
    page.wait_for_selector("#od-rows .od-item:has-text('Boats')", state="visible")
    write(page, "#od-search input, #od-search textarea", "2024")
    page.wait_for_selector("#od-rows .od-item:has-text('Boats')", state="detached")


def test_a_prompt_is_inserted_renamed_and_carried(server, pages):
    page = pages.open(server)
    new_chat(page)
    tab(page, "Library")
    page.fill("#od-box textarea", "Summarise in three lines:")
    write(page, "#od-prompt-name input, #od-prompt-name textarea", "Sum<b>up")
    page.click("#od-prompt-save")
    wait_for_rows(page, "#od-prompts", ["Sum<b>up"])
    page.fill("#od-box textarea", "Listen.")
    page.click("#od-prompts .od-row")
    page.wait_for_function("document.querySelector('#od-box textarea').value === 'Listen.\\nSummarise in three lines:'")
    assert page.evaluate("document.activeElement.closest('#od-box') !== null")
    page.hover("#od-prompts .od-item")
    page.click("#od-prompts button[data-kind=rename]")
    page.fill("#od-prompts input", "Summary")
    page.press("#od-prompts input", "Enter")
    page.wait_for_selector("#od-prompts .od-row >> text=Summary")
    carried = json.dumps(library(page, server)).encode()
    page.set_input_files(
        "#od-library-transfer input[type=file]",
        {"name": "library.json", "mimeType": "application/json", "buffer": carried},
    )
    page.wait_for_selector("#od-library-said >> text=Imported: 0 presets, 1 prompt, 0 facts.")
    wait_for_rows(page, "#od-prompts", ["Summary", "Summary (2)"])
    page.set_input_files(
        "#od-library-transfer input[type=file]", {"name": "x.json", "mimeType": "application/json", "buffer": b"{"}
    )
    page.wait_for_selector("#od-library-said >> text=it is not JSON")
