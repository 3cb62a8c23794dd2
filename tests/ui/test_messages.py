"""Messages in a real browser: typed, shown in every tab, gone on with, with files; models that leave memory."""

from __future__ import annotations

import pytest

from omnidraft.profiles.folders import create_profile
from omnidraft.storage.paths import find_data_home
from tests.app.test_documents import docx_of
from tests.serving import served
from tests.ui.chatting import answered, answers, arrived, ask, exported, new_chat, questions, wait_idle
from tests.ui.conftest import SETTINGS, kept_page

BRIEF = SETTINGS.replace("max_tokens = 48", "max_tokens = 5")


brief = served(settings=BRIEF)
page = kept_page("brief")


def attach(page, *files: tuple[str, bytes]) -> None:
    upload = [{"name": name, "mimeType": "text/plain", "buffer": data} for name, data in files]
    page.set_input_files("#od-composer input[type=file]", upload)


def test_an_answer_that_was_cut_goes_on_in_the_same_message(brief, page):
    new_chat(page)
    ask(page, "Tell me a long story about ships.")
    page.wait_for_selector("#od-notice >> text=Continue goes on")
    page.wait_for_selector("#od-chat .od-more >> text=Continue")
    first = exported(page, brief)["messages"][-1]
    assert first["meta"]["finish_reason"] == "length"
    before = answers(page)[-1]
    page.click("#od-chat button[title='Continue']")
    page.wait_for_function(
        "n => document.querySelector('#od-chat .bot-row .message').innerText.trim().length > n", arg=len(before)
    )
    wait_idle(page)
    assert len(answers(page)) == 1
    assert "/ 2" not in page.inner_text("#od-chat .bot-row")
    last = exported(page, brief)["messages"][-1]
    assert last["id"] == first["id"]
    assert last["content"].startswith(first["content"])
    assert last["meta"]["seed"] == first["meta"]["seed"]
    assert last["meta"]["token_ids"][:5] == first["meta"]["token_ids"]
    assert last["meta"]["statistics"]["tokens"] == len(last["meta"]["token_ids"]) > 5
    assert last["meta"]["statistics"]["prompt_tokens"] == first["meta"]["statistics"]["prompt_tokens"]
    ask(page, "And then?")  # the next turn reads the whole answer
    assert len(answers(page)) == 2


def sent_files(page, server) -> list[list[str]]:
    """The names of the files of each question."""
    asked = [message for message in exported(page, server)["messages"] if message["role"] == "user"]
    return [[file["name"] for file in message["meta"].get("files", [])] for message in asked]


def test_a_message_waits_for_all_its_files_however_fast_they_come(brief, page):
    """Word files are read in a process of their own: none of them is there when Enter is pressed."""
    new_chat(page)
    page.fill("#od-box textarea", "Sum up.")
    names = [f"{n}.docx" for n in range(5)]
    for name in names:
        attach(page, (name, docx_of(f"This is {name}.")))
        page.wait_for_timeout(50)
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-coming >> text=The message goes when they are read")
    answered(page)
    ask(page, "And now?")
    assert sent_files(page, brief) == [names, []]


def test_files_stay_with_a_message_that_is_not_sent_yet_as_its_text_does(brief, page):
    new_chat(page)
    ask(page, "Good evening")
    attach(page, ("kept.txt", b"word"))
    page.wait_for_selector("#od-attached li >> text=kept.txt")
    page.fill("#od-box textarea", "Sum up.")
    new_chat(page)
    page.wait_for_selector("#od-attached li", state="detached")
    page.click("#od-rows .od-row:has-text('Good evening')")
    page.wait_for_selector("#od-attached li >> text=kept.txt")
    assert page.input_value("#od-box textarea") == "Sum up."
    page.click("#od-chat .user-row .od-turn button[title='Edit']")
    page.wait_for_selector("#od-attached li", state="detached")
    page.wait_for_selector("#od-chat .user-row.od-edited")
    page.click("#od-cancel")
    page.wait_for_selector("#od-chat .user-row.od-edited", state="detached")
    page.wait_for_selector("#od-attached li >> text=kept.txt")
    page.press("#od-box textarea", "Enter")
    page.wait_for_function("document.querySelectorAll('#od-chat .message-row').length >= 4")
    answered(page)
    new_chat(page)
    page.click("#od-rows .od-row:has-text('Good evening')")
    page.wait_for_selector("#od-chat .user-row >> text=Sum up.")
    assert page.locator("#od-attached li").count() == 0
    assert sent_files(page, brief) == [[], ["kept.txt"]]


def test_a_refusal_stays_in_sight_and_nothing_is_sent_without_the_file(brief, page):
    new_chat(page)
    page.fill("#od-box textarea", "Sum up.")
    attach(page, ("a.bin", bytes(range(256)) * 20), ("b.docx", docx_of("word")), ("c.txt", b"word"))
    page.press("#od-box textarea", "Enter")
    page.wait_for_selector("#od-attached li >> text=c.txt")
    page.wait_for_selector("#od-coming .od-bad >> text=a.bin is a binary file")
    page.wait_for_timeout(500)
    assert not questions(page)
    assert page.input_value("#od-box textarea") == "Sum up."
    page.press("#od-box textarea", "Enter")  # as it is, then
    answered(page)
    assert sent_files(page, brief) == [["b.docx", "c.txt"]]


def test_a_guessed_encoding_is_changed_on_its_chip(brief, page):
    new_chat(page)
    attach(page, ("a.csv", "Jméno;Město\nTomáš;Plzeň\n".encode("cp1250")))
    page.wait_for_selector("#od-attached select")
    page.select_option("#od-attached select", "cp1250")
    page.wait_for_function("document.querySelector('#od-attached select').value === 'cp1250'")
    page.wait_for_timeout(500)
    ask(page, "Who?")
    (file,) = exported(page, brief)["messages"][0]["meta"]["files"]
    assert file["text"] == "Jméno;Město\nTomáš;Plzeň\n"


COMPOSED = """(field) => field.dispatchEvent(new KeyboardEvent("keydown",
  {key: "Enter", code: "Enter", keyCode: 229, which: 229, bubbles: true, cancelable: true}))"""


def test_a_question_shows_in_every_tab_of_its_conversation(brief, page, kept_pages):
    first = page
    new_chat(first)
    ask(first, "One")
    second = kept_pages.open(brief, first.url.removeprefix(brief.origin), context=first.context)
    arrived(second)
    ask(first, "Two")
    second.wait_for_function("document.querySelectorAll('#od-chat .user-row').length === 2")
    assert questions(second) == ["One", "Two"]
    assert second.locator("#od-chat .bot-row .od-turn").count() == 2
    new_chat(first)
    ask(first, "Elsewhere")
    second.wait_for_selector("#od-rows .od-item >> text=Elsewhere")
    assert questions(second) == ["One", "Two"], "it stays where it is"
    second.close()


def test_a_tab_follows_another_profile(brief, pages):
    page = pages.open(brief)
    arrived(page)
    was = page.get_attribute("#od-marks", "data-chat")
    create_profile(find_data_home(brief.data / "home"), "other")
    page.evaluate("document.cookie = 'omnidraft_profile=other;path=/'")
    page.wait_for_function("was => (document.getElementById('od-marks')?.dataset.chat || was) !== was", arg=was)
    assert "not here any more" not in page.inner_text("#od-main")


def test_what_was_typed_is_shown_as_it_was_typed(page):
    new_chat(page)
    typed = "Use *stars* and _lines_:\n    # four spaces\n\n- a - b\n1. c $5 $6 `d` https://a.b/c_d_e <b>"
    ask(page, typed)
    assert page.locator("#od-chat .user-row .message").inner_text().rstrip() == typed
    assert not page.locator("#od-chat .user-row .message :is(em, strong, code, h1, li, a, b)").count()


@pytest.mark.parametrize("box", ["message", "rename"])
def test_enter_of_an_input_method_does_nothing_in_any_box(page, box):
    new_chat(page)
    if box == "rename":
        page.hover("#od-rows .od-item[aria-current]")
        page.click("#od-rows .od-item[aria-current] [data-kind=rename]")
        field = "#od-rows .od-item input:not([type])"
    else:
        field = "#od-box textarea"
    page.fill(field, "にほ")
    page.eval_on_selector(field, COMPOSED)
    page.wait_for_timeout(600)
    assert page.input_value(field) == "にほ"
    assert not questions(page)


@pytest.mark.browser_slow
def test_a_model_nobody_uses_leaves_memory_and_comes_back(make_server, pages):
    server = make_server(settings="unload_after = 0.03\n" + BRIEF)
    page = pages.open(server)
    arrived(page)
    ask(page, "Good morning.")
    page.wait_for_selector("#od-notice >> text=the model left memory", timeout=40_000)
    assert page.inner_text("#od-state").strip() == ""
    ask(page, "Are you still there?")
    assert len(answers(page)) == 2
    assert "unloaded after" in server.log
