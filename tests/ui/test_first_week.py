"""What somebody does in a first week, in a browser: turns, versions, imports, models, thoughts, an app restarted."""

from __future__ import annotations

import time

from omnidraft.learning.facts import Update
from omnidraft.learning.material.history import History
from tests.serving import served
from tests.ui.chatting import answers, arrived, ask, new_chat, questions, wait_idle


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


def test_the_history_shown_is_that_of_the_drafter_and_model_at_hand(make_server, pages, tmp_path):
    path = tmp_path / "app/home/profiles/default/metrics.sqlite"
    path.parent.mkdir(parents=True)
    history = History(path)
    history.save("another-drafter/abc", Update(
        1, time.time(), "another-drafter", "another-model", "abc", outcome="refused", ended=time.time()))  # fmt: skip
    history.close()
    page = pages.open(make_server(), "/learning")
    page.wait_for_selector("#od-page >> text=another-model")
    page.wait_for_selector("#od-page >> text=the updates of all drafters and models are shown")
    page.click("#od-learning-load")
    page.wait_for_selector(".od-explain >> text=Nothing learned yet")
    page.wait_for_selector("#od-page >> text=another-model", state="hidden")


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
    assert server.lookups == []


SAYS = "<think>Let me see the map first, slowly and with care.</think>It is far.|Not so" + " far" * 300
thinking = served(SAYS=SAYS, PAUSE="0.12")


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
