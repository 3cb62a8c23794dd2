"""The chat page in a real browser: asking, versions, conversations, what survives a reload and a restart."""

from __future__ import annotations

import json

import pytest

from tests.exports import elsewhere
from tests.serving import served
from tests.ui.chatting import answers, ask, choose, exported, new_chat, questions, tab, titles, wait_idle, write
from tests.ui.conftest import SETTINGS, kept_page

# It drafts at a fixed length, for whether drafting pays depends on who else is busy.
server = served(settings=SETTINGS + '\n[draft]\nmode = "fixed"\n')
page = kept_page("server")


def test_an_answer_streams_and_the_panel_counts(page):
    new_chat(page)
    ask(page, "What is the capital of France?")
    assert len(answers(page)) == 1
    assert answers(page)[0]
    panel = page.inner_text("#od-live")
    assert "tokens/s" in panel
    assert "of what the drafter guessed was accepted" in panel
    assert "verify" in panel
    tab(page, "Tokens")
    assert page.locator(".od-tokens .od-k").count() > 3
    assert "context" in page.inner_text("#od-state")


def test_another_answer_and_an_edit_keep_all_versions(server, page):
    new_chat(page)
    ask(page, "First question")
    page.click("button[title='Answer again']")
    page.wait_for_selector("text=2 / 2")
    wait_idle(page)
    first, second = (m["meta"]["seed"] for m in exported(page, server)["messages"] if m["role"] == "assistant")
    assert first != second
    page.hover("#od-chat .user-row")
    page.click("#od-chat .user-row button[title='Edit']")
    page.wait_for_function("document.querySelector('#od-box textarea').value === 'First question'")
    page.fill("#od-box textarea", "Another question")
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-chat .user-row >> text=Another question")
    wait_idle(page)
    assert questions(page) == ["Another question"]
    page.click("#od-chat .user-row button[title='Earlier version']")
    page.wait_for_selector("#od-chat .user-row >> text=First question")
    # The answer's own versions came back with it.
    page.wait_for_selector("#od-chat .bot-row >> text=2 / 2")


@pytest.mark.browser_slow
def test_conversations_are_listed_searched_renamed_and_deleted(server, pages):
    page = pages.open(server)
    for text in ("Zebras on the moon", "A list of winds"):
        new_chat(page)
        ask(page, text)
    assert titles(page)[:2] == ["A list of winds", "Zebras on the moon"]
    top, text = page.locator("[data-pick=begin]").bounding_box(), page.locator("#od-rows .od-age >> nth=0")
    words = text.evaluate("e => e.getBoundingClientRect().top + 12")  # below its padding
    assert abs(top["y"] + 3 - words) < 3, "Select stands beside the heading"
    write(page, "#od-search input", "zebra")
    page.wait_for_function("document.querySelectorAll('#od-rows .od-row').length === 1")
    page.click("#od-rows .od-row")
    page.wait_for_selector("#od-chat .user-row >> text=Zebras on the moon")
    write(page, "#od-search input", "")
    item = "#od-rows .od-item:has-text('Zebras on the moon')"
    page.hover(item)
    page.click(f"{item} [data-kind=rename]")
    page.keyboard.type("Stripes & <b>stars</b>")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-rows >> text=Stripes & <b>stars</b>")
    item = "#od-rows .od-item:has-text('Stripes')"
    page.hover(item)
    page.click(f"{item} [data-kind=ask-delete]")
    page.click(f"{item} [data-kind=keep]")
    assert page.locator(item).count() == 1
    page.hover(item)
    page.click(f"{item} [data-kind=ask-delete]")
    page.click(f"{item} [data-kind=delete]")
    page.wait_for_function("!document.querySelector('#od-rows').innerText.includes('Stripes')")
    assert "Stripes & <b>stars</b>" not in titles(page)
    page.wait_for_selector("text=what the drafter learned from it stays")
    page.click("#od-notice .od-undo")
    page.wait_for_selector("#od-chat .user-row >> text=Zebras on the moon")
    assert "Stripes & <b>stars</b>" in titles(page)
    page.click("[data-pick=begin]")
    for name in ("Stripes", "winds"):
        page.click(f"#od-rows .od-item:has-text('{name}') .od-box")
    exported = page.request.get(server.origin + page.get_attribute("[data-pick=export]", "href")).json()
    assert {one["title"] for one in exported["conversations"]} == {"Stripes & <b>stars</b>", "A list of winds"}
    page.click("[data-pick=archive]")
    page.wait_for_selector("#od-rows summary:has-text('Archived · 2')")  # open, for one of them is shown
    page.hover(item)
    page.click(f"{item} [data-kind=unarchive]")
    page.wait_for_selector("#od-rows summary:has-text('Archived · 1')")
    page.wait_for_selector(f"{item}:not(.od-archive .od-item)")
    item = "#od-rows .od-item >> nth=0"
    page.hover(item)
    page.click(f"{item} >> [data-kind=ask-delete]")
    page.click(f"{item} >> [data-kind=forget]")
    page.wait_for_selector("#od-notice >> text=Removed: 1 conversation")


def test_a_conversation_leaves_and_comes_back_as_a_file(page, tmp_path):
    new_chat(page)
    ask(page, "Carry me over")
    before = answers(page)
    with page.expect_download() as download:
        page.click("#od-links >> text=JSON")
    path = tmp_path / "chat.json"
    download.value.save_as(path)
    whole = json.loads(path.read_text())
    assert whole["conversations"][0]["title"] == "Carry me over"
    with page.expect_download() as download:
        page.click("#od-links >> text=Markdown")
    download.value.save_as(tmp_path / "chat.md")
    assert before[0].split()[0] in (tmp_path / "chat.md").read_text()
    page.set_input_files("#od-transfer input[type=file]", str(path))
    page.wait_for_selector("#od-notice >> text=0 conversations were imported; 1 was here already")
    assert titles(page).count("Carry me over") == 1
    other = tmp_path / "other.json"
    other.write_text(elsewhere(path.read_text()))
    page.set_input_files("#od-transfer input[type=file]", str(other))
    page.wait_for_selector("#od-notice >> text=1 conversation was imported.")
    assert titles(page).count("Carry me over") == 2
    assert answers(page) == before


def test_the_target_changes_in_the_middle_of_a_conversation_and_says_what_happened(server, page):
    new_chat(page)
    ask(page, "Good morning")
    choose(page, "#od-target", "tiny-target-b")
    page.wait_for_selector("#od-notice >> text=answers from here on")
    said = page.inner_text("#od-notice")
    assert "tiny-target-b" in said
    assert "tiny-drafter-f16 guesses for it" in said
    tip = page.get_attribute("#od-notice .od-tip", "data-tip")
    assert "tokens of its vocabulary (qwen2) are pieces of the drafter's, too" in tip
    ask(page, "And now?")
    assert len(questions(page)) == 2
    choose(page, "#od-target", "tiny-target-a ")
    page.wait_for_selector("#od-notice >> text=tiny-target-a answers")
    assert server.log.count("loaded tiny-target-b") == 1  # one choice, one load
