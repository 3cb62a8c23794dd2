"""Functions in a conversation: asked for, decided about by the user, run or refused, and answered behind."""

from __future__ import annotations

import json
import time

import pytest

from omnidraft.app import conversing
from omnidraft.app.tool_use import MAX_CALLS, MAX_STEPS
from omnidraft.app.tools.toolbox import Toolbox
from omnidraft.chats import TextFile, export_json, import_json
from omnidraft.chats.records import NOT_ALLOWED, open_call
from omnidraft.errors import ModelError
from tests.app.tools.servers import a_server, named
from tests.exports import elsewhere
from tests.ui.fake_assistant import FakeAssistant, call, fake_sessions

SUM = call("calculator", '{"expression": "6 * 7"}')


@pytest.fixture
def session(tmp_path, monkeypatch, models):
    for sessions in fake_sessions(tmp_path, monkeypatch, models / "tiny-target-a-f16.gguf", []):
        yield sessions.get("ada")


@pytest.fixture
def chat(session):
    name = session.shown.chat().id
    session.store.update(name, tools=())
    return name


def ask(session, chat, *says: str, files=()):
    FakeAssistant.says[:] = says
    conversing.ask(session, chat, "What is it?", files).join(60)
    assert session.job.error is None
    return session.store.path(chat)[-1]


def decide(session, chat, choice: str, *says: str):
    FakeAssistant.says[:] = says
    last = session.store.path(chat)[-1]
    job = conversing.decide(session, chat, last.id, open_call(last.steps).id, choice)
    if job is not None:
        job.join(60)
        assert job.error is None
    return session.store.path(chat)[-1]


def test_tools_are_off_until_somebody_switches_them_on(session):
    name = session.shown.chat().id
    assert session.store.get(name).tools is None
    answer = ask(session, name, f"Sure. {SUM}")
    assert "tools" not in session.assistant.read[-1][-1]
    assert (answer.content, answer.steps) == (f"Sure. {SUM}", [])


def test_nothing_runs_before_its_user_has_allowed_it(session, chat):
    answer = ask(session, chat, f"Let me see. {SUM}")
    offered = [one["function"]["name"] for one in session.assistant.read[-1][-1]["tools"]]
    assert offered == ["calculator", "clock"]
    assert answer.content.strip() == "Let me see."
    (asked,) = answer.steps[0].calls
    assert (asked.name, json.loads(asked.arguments), asked.state) == ("calculator", {"expression": "6 * 7"}, "asked")
    assert asked.result == ""
    assert not session.queue.busy
    assert len(session.assistant.read) == 1


def test_an_allowed_call_runs_and_its_result_goes_back(session, chat):
    ask(session, chat, f"Let me see. {SUM}")
    answer = decide(session, chat, "once", "It is 42.")
    assert answer.content == "Let me see.\n\nIt is 42."
    assert (answer.steps[0].calls[0].state, answer.steps[0].calls[0].result) == ("done", "42")
    *_, said, result = session.assistant.read[-1]
    assert said["tool_calls"][0]["function"]["name"] == "calculator"
    assert said["content"] == "Let me see."
    assert (result["role"], result["content"]) == ("tool", "42")
    assert result["tool_call_id"] == said["tool_calls"][0]["id"]
    assert len(result["tool_call_id"]) == 9
    assert len(session.store.path(chat)) == 2, "it is one answer"
    assert answer.statistics["tokens"] == len(f"Let me see. {SUM}") + len("It is 42.")
    assert len(answer.token_ids) == answer.statistics["tokens"], "what forgetting goes by"


def test_always_holds_in_this_conversation_and_for_this_function_alone(session, chat):
    ask(session, chat, SUM)
    decide(session, chat, "always", "It is 42.")
    answer = ask(session, chat, SUM, "Again 42.")
    assert answer.steps[0].calls[0].result == "42"
    assert answer.content.strip() == "Again 42."
    assert open_call(ask(session, chat, call("clock")).steps).name == "clock"
    other = session.store.create().id
    session.store.update(other, tools=())
    assert open_call(ask(session, other, SUM).steps) is not None
    fork = session.store.fork(session.store.path(chat)[1].id)
    assert fork.tools == ()


def test_several_calls_are_decided_about_one_by_one(session, chat):
    ask(session, chat, f"{SUM}\n{call('clock')}")
    waiting = decide(session, chat, "once")
    assert [c.state for c in waiting.steps[0].calls] == ["done", "asked"]
    assert len(session.assistant.read) == 1, "the answer waits"
    answer = decide(session, chat, "refuse", "Done.")
    results = [m["content"] for m in session.assistant.read[-1] if m["role"] == "tool"]
    assert results == ["42", NOT_ALLOWED]
    assert [c.state for c in answer.steps[0].calls] == ["done", "refused"]
    assert answer.content.strip() == "Done."


def test_who_writes_on_instead_has_not_allowed_it(session, chat):
    ask(session, chat, SUM)
    with pytest.raises(ModelError, match="Decide"):
        conversing.resume(session, chat)
    ask(session, chat, "Never mind.")
    assert [m["content"] for m in session.assistant.read[-1] if m["role"] == "tool"] == [NOT_ALLOWED]


def test_attached_files_can_be_read_when_allowed(session, chat):
    answer = ask(session, chat, call("read_file", '{"name": "a.txt"}'), files=[TextFile("a.txt", "Buy milk.")])
    assert answer.steps[0].calls[0].result == ""
    assert decide(session, chat, "once", "Milk.").steps[0].calls[0].result == "Buy milk."


def test_an_answer_does_not_ask_for_ever(session, chat):
    session.store.update(chat, tools=("calculator",))
    answer = ask(session, chat, *[SUM] * 20)
    assert len(answer.steps) == MAX_STEPS
    assert len(session.assistant.read) == MAX_STEPS + 1
    assert "tools" not in session.assistant.read[-1][-1]
    many = ask(session, chat, SUM * 9, "Enough.")
    assert len(many.steps[0].calls) == MAX_CALLS


def test_an_answer_that_was_cut_asks_for_nothing_and_goes_on(session, chat, monkeypatch):
    ask(session, chat, SUM)
    monkeypatch.setattr(FakeAssistant, "reason", "length")
    cut = decide(session, chat, "once", "It is")
    assert cut.meta["finish_reason"] == "length"
    monkeypatch.setattr(FakeAssistant, "reason", "stop")
    FakeAssistant.says[:] = [" 42."]
    conversing.resume(session, chat).join(60)
    whole = session.store.path(chat)[-1]
    assert whole.content.strip() == "It is 42."
    assert whole.steps == cut.steps
    assert session.assistant.read[-1][-1]["role"] == "tool", "the engine adds what was said behind it"
    assert len(whole.token_ids) == len(SUM) + len("It is") + len(" 42.")


def test_a_template_without_tools_is_told_of(session, chat, monkeypatch):
    monkeypatch.setattr(FakeAssistant, "supports", False)
    ask(session, chat, "Hello.")
    assert "tools" not in session.assistant.read[-1][-1]
    assert any("does not support tools" in told for told in session.job.live.notices)


def test_what_was_called_travels_and_the_permission_does_not(session, chat):
    ask(session, chat, SUM)
    decide(session, chat, "always", "It is 42.")
    ((brought,), _) = import_json(session.store, elsewhere(export_json(session.store, [chat])))
    assert brought.tools == ()
    assert session.store.path(brought.id)[-1].steps[0].calls[0].result == "42"


GREET = call("shelf__greet", '{"name": "Ada"}')


@pytest.fixture
def shelf(session, chat):
    """A conversation that may ask for functions, of a profile that names a server."""
    named(session.assistant.home, shelf=a_server())
    return chat


def test_a_servers_function_is_offered_asked_about_and_run(session, shelf):
    assert session.tools.listed() == ["shelf: not running"]
    waiting = ask(session, shelf, GREET)
    assert "shelf__greet" in [one["function"]["name"] for one in session.assistant.read[-1][-1]["tools"]]
    assert (waiting.steps[0].calls[0].state, waiting.steps[0].calls[0].result) == ("asked", "")
    answer = decide(session, shelf, "once", "She is greeted.")
    assert answer.steps[0].calls[0].result == "Hello, Ada!"
    assert session.assistant.read[-1][-1]["content"] == "Hello, Ada!"
    decide_again = ask(session, shelf, GREET)
    assert open_call(decide_again.steps).name == "shelf__greet", "once is once"
    assert decide(session, shelf, "refuse", "Then not.").steps[0].calls[0].state == "refused"
    ask(session, shelf, GREET)
    decide(session, shelf, "always", "She is greeted.")
    assert ask(session, shelf, GREET, "Again.").steps[0].calls[0].result == "Hello, Ada!"


def test_a_server_that_fails_is_told_of_and_the_answer_is_written(session, shelf):
    ask(session, shelf, GREET)
    named(session.assistant.home, shelf=a_server("ends"))
    called = decide(session, shelf, "once", "It is gone.")
    assert called.steps[0].calls[0].result == "Error: There is no function named shelf__greet."
    assert called.content.strip() == "It is gone."
    assert called.meta["notices"] == ["The server shelf ended by itself; its functions are not offered."]
    assert "notices" not in ask(session, shelf, "And again.").meta


def test_an_allowed_call_runs_whatever_else_waits_and_behind_a_restart(session, shelf):
    ask(session, shelf, f"{GREET}\n{call('shelf__end')}")
    session.tools.close()
    session.tools = Toolbox(session.assistant.home.servers("ada"))
    waiting = decide(session, shelf, "once")
    assert [c.result for c in waiting.steps[0].calls] == ["Hello, Ada!", ""]
    assert (waiting.meta["finish_reason"], waiting.partial) == ("stop", False)
    assert len(session.assistant.read) == 1
    answer = decide(session, shelf, "once", "It ended.")
    assert answer.steps[0].calls[1].result == "Error: shelf ended by itself; the next question starts it again."
    assert answer.content.strip() == "It ended."


def test_a_call_that_takes_long_keeps_nobody_from_the_pages_and_can_be_stopped(session, shelf):
    waiting = ask(session, shelf, call("shelf__wait", '{"seconds": 60}'))
    start = time.monotonic()
    job = conversing.decide(session, shelf, waiting.id, open_call(waiting.steps).id, "once")
    assert time.monotonic() - start < 1, "it runs with the answer"
    assert session.writing(shelf)
    time.sleep(0.5)  # until the server waits, more or less: a stop counts before, too
    job.stop()
    job.join(5)
    assert job.over
    stopped = session.store.path(shelf)[-1].steps[0].calls[0]
    assert (stopped.state, stopped.result) in [
        ("done", "Error: The user stopped the call; whether it did anything is not known."), ("asked", ""),
    ]  # fmt: skip
    assert len(session.assistant.read) == 1


def test_an_answer_that_is_gone_on_with_may_call_and_all_of_it_counts(session, chat, monkeypatch):
    session.store.update(chat, tools=("calculator",))
    monkeypatch.setattr(FakeAssistant, "reason", "length")
    ask(session, chat, "Let me")
    monkeypatch.setattr(FakeAssistant, "reason", "stop")
    FakeAssistant.says[:] = [f" see. {SUM}", "It is 42."]
    conversing.resume(session, chat).join(60)
    whole, before = session.store.path(chat)[-1], len(f"Let me see. {SUM}")
    assert whole.content == "Let me see.\n\nIt is 42."
    assert session.assistant.begun[-2:] == ["Let me", None], "behind the call nothing is begun"
    assert whole.steps[0].ids == before
    assert whole.statistics["tokens"] == len(whole.token_ids) == before + len("It is 42.")
