"""Functions on the chat page: the switch, the question, what each choice leads to, and nothing of it taken for HTML."""

from __future__ import annotations

import pytest

from omnidraft.app import conversing
from omnidraft.chats.records import open_call, steps_meta, with_call
from tests.app.tools.servers import a_server, named
from tests.serving import served
from tests.ui.chatting import arrived, ask, tab, wait_idle
from tests.ui.fake_assistant import FakeAssistant, by, call, clicked, fake_sessions, shown
from ui.chat.events import Answering, OptionEvents
from ui.chat.following import Followed
from ui.chat.parts import CALL_WAITS, TOOLS, question
from ui.chat.turns import turns

SUM = call("calculator", '{"expression": "6 * 7"}')


@pytest.fixture
def sessions(tmp_path, monkeypatch, models):
    yield from fake_sessions(tmp_path, monkeypatch, models / "tiny-target-a-f16.gguf", [])


@pytest.fixture
def ada(sessions):
    return sessions.get("ada")


def waiting(session, text: str = f"Let me see. {SUM}"):
    """A conversation whose answer waits for its user."""
    chat = session.shown.chat().id
    session.store.update(chat, tools=())
    FakeAssistant.says[:] = [text]
    conversing.ask(session, chat, "What is it?").join(10)
    return chat, session.store.path(chat)[-1]


def rows_of(session, chat):
    return turns(session.store.path(chat), session.store.versions(chat))


def test_the_switch_is_the_conversations(sessions, view, ada):
    chat = ada.shown.chat().id
    assert "you decide" in shown(view, OptionEvents(sessions, view).tools(True, chat, by("ada")))["notice"]
    assert ada.store.get(chat).tools == ()
    assert shown(view, view.open(ada, ada.store.get(chat), None))["tools"].value is True
    shown(view, OptionEvents(sessions, view).tools(False, chat, by("ada")))
    assert ada.store.get(chat).tools is None
    assert shown(view, view.open(ada, ada.shown.new_chat(), None))["tools"].value is False


def test_named_servers_are_listed_and_started_by_the_switch_alone(sessions, view, ada):
    assert shown(view, view.open(ada, ada.shown.chat(), None))["tools"].info == TOOLS
    named(sessions.home, shelf=a_server(), broken={"command": "no-such-program-here"})
    chat = ada.shown.chat()
    listed = shown(view, view.open(ada, chat, None))["tools"].info
    assert "mcp/ada.json" in listed
    assert "shelf: not running; broken: not running." in listed
    first, last = list(OptionEvents(sessions, view).tools(True, chat.id, by("ada")))
    assert "Starting" in first[view.notice]
    assert "The server broken could not be started" in last[view.notice]
    assert "shelf: greet, fail, write, wait, end, environment; broken: not running." in last[view.tools].info
    (told,) = OptionEvents(sessions, view).tools(False, chat.id, by("ada"))
    assert "broken" not in told[view.notice]


def test_a_call_is_shown_in_the_answer_and_asked_about(view, ada):
    chat, answer = waiting(ada)
    found = rows_of(ada, chat)
    words, asks, end = found.rows[-3:]
    assert words["content"]["text"].strip() == "Let me see."
    assert asks["metadata"]["title"] == "Asks to use calculator"
    assert "6 * 7" in asks["content"]["text"]
    assert end["content"]["text"] == CALL_WAITS
    assert len(found.rows) == len(found.marks)
    html = shown(view, view.open(ada, ada.store.get(chat), chat))["permit"]
    assert f'data-call="{open_call(answer.steps).id}"' in html
    assert html.count("<button") == 3


@pytest.mark.parametrize(("choice", "title"), [
    ("once", "Used calculator"), ("always", "Used calculator"), ("refuse", "Was not allowed to use calculator"),
])  # fmt: skip
def test_each_choice_is_followed_by_the_rest_of_the_answer(sessions, view, ada, choice, title):
    chat, answer = waiting(ada)
    FakeAssistant.says[:] = ["So it is."]
    event = clicked(message=answer.id, call=open_call(answer.steps).id, kind=choice)
    update = shown(view, Answering(sessions, view).decide(chat, Followed(), by("ada"), event))
    ada.job.join(10)
    assert update["permit"] == ""
    fold, end = rows_of(ada, chat).rows[-2:]
    assert fold["metadata"]["title"] == title
    assert ("42" in fold["content"]["text"]) is (choice != "refuse")
    assert end["content"]["text"].strip() == "So it is."
    assert ada.store.get(chat).tools == (("calculator",) if choice == "always" else ())


@pytest.mark.parametrize("change", [{"call": "other"}, {"message": "other"}, {"kind": "whatever"}])
def test_a_click_that_fits_nothing_runs_nothing(sessions, view, ada, change):
    chat, answer = waiting(ada)
    data = {"message": answer.id, "call": open_call(answer.steps).id, "kind": "once", **change}
    update = shown(view, Answering(sessions, view).decide(chat, Followed(), by("ada"), clicked(**data)))
    assert "already" in update["notice"]
    assert "data-call" in update["permit"], "it can still be decided about"
    assert len(ada.assistant.read) == 1


def test_what_a_model_writes_into_a_call_is_text(view, ada):
    """Names are known ones; arguments and results may hold anything."""
    chat, answer = waiting(ada, call("calculator", '{"expression": "<img src=x onerror=alert(1)> ``` <b>"}'))
    html = question([answer])
    assert "<img" not in html
    assert "<b>calculator</b>" in html
    asked = open_call(answer.steps)
    steps = with_call(answer.steps, asked.done("```\n<script>alert(1)</script>"))
    ada.store.save_partial(answer.id, answer.content, {**answer.meta, "steps": steps_meta(steps)}, final=True)
    text = "".join(row["content"]["text"] for row in rows_of(ada, chat).rows)
    assert "<" not in text
    assert "````" in text, "the fence is longer than what stands inside"


def test_the_question_says_what_runs_outside(ada):
    _, answer = waiting(ada, call("calculator"))
    assert "outside OmniDraft" not in question([answer])
    named(ada.assistant.home, shelf=a_server())
    _, answer = waiting(ada, call("shelf__greet", '{"name": "<b>"}'))
    assert "<b>shelf__greet</b>, which a program outside OmniDraft runs:" in question([answer])


scripted_server = served(settings="[model]\nthreads = 1\n", SAYS=f"Let me see. {SUM}|It is 42.")


@pytest.mark.browser_slow
def test_in_a_browser_a_call_waits_and_goes_on_when_it_is_allowed(scripted_server, pages):
    page = pages.open(scripted_server)
    arrived(page)
    tab(page, "Options")
    page.check("#od-tools input")
    page.wait_for_selector("#od-notice >> text=you decide about each call")
    ask(page, "What is six times seven?", wait=False)
    page.wait_for_selector("#od-permit button")
    wait_idle(page)
    assert "6 * 7" in page.inner_text("#od-permit pre")
    page.focus("#od-permit button[data-kind=once]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#od-chat .bot-row >> text=It is 42.")
    page.wait_for_selector("#od-chat >> text=Used calculator")
    wait_idle(page)
    page.wait_for_selector("#od-permit button", state="detached")
