"""What the chat page's handlers do for one page while other tabs, profiles and clients of the API go about theirs."""

from __future__ import annotations

import re
import threading
import time
from html import unescape

import gradio as gr
import pytest

import omnidraft.app.conversing
import omnidraft.app.session
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.sessions import Sessions
from omnidraft.chats import TextFile
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from omnidraft.storage.paths import find_data_home
from tests.ui.fake_assistant import FakeAssistant, by, clicked, shown
from ui.chat import page as chat_page
from ui.chat.events import Answering
from ui.chat.layout import build_layout
from ui.chat.option_events import Options
from ui.chat.page import TOO_LATE, Conversations
from ui.chat.parts import GONE
from ui.chat.turns import UNANSWERED, Followed

FILES = [TextFile("notes.txt", "Buy milk.")]
WRITTEN = ("box", "attached", "editing")


@pytest.fixture
def sessions(tmp_path, monkeypatch, models):
    monkeypatch.setattr(omnidraft.app.session, "Assistant", FakeAssistant)
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(models / "tiny-target-a-f16.gguf"))
    for name in ("ada", "bob"):
        made.home.profile(name)
        made.get(name)
    yield made
    made.close()


@pytest.fixture
def view():
    with gr.Blocks():
        yield build_layout().view


@pytest.fixture
def ada(sessions):
    return sessions.get("ada")


def answered(session, chat: str, text: str = "Hello") -> None:
    omnidraft.app.conversing.ask(session, chat, text)
    session.job.join(10)


def begun(session, chat: str, text: str = "Hello") -> None:
    """An answer that does not end by itself."""
    session.prepare()
    session.assistant.go_on.clear()
    omnidraft.app.conversing.ask(session, chat, text)


def begun_by_api(session) -> None:
    session.prepare()
    session.assistant.go_on.clear()
    session.start(AnswerJob(session.assistant, AnswerRequest([])))


def values_of(session, system: str) -> list:
    """What the options' components send."""
    s = session.settings.sampling
    return [system, s.temperature, s.top_p, s.min_p, s.top_k, s.repeat_penalty, s.max_tokens, "", "", s.thinking]


@pytest.mark.parametrize("editing", [None, "some message"])
def test_a_message_never_lands_in_another_profile(sessions, view, ada, editing):
    chat, bob = ada.shown.chat().id, sessions.get("bob")
    theirs = bob.shown.chat().id
    handlers = Answering(sessions, view)
    update = shown(view, handlers.ask("For Ada only", chat, editing, FILES, "refuse", Followed(), by("bob")))
    assert GONE in update.pop("notice")
    assert update == {}, "text and files stay in the box"
    assert bob.store.path(theirs) == ada.store.path(chat) == []
    assert len(bob.store.conversations()) == 1


def test_a_message_never_lands_in_another_conversation(sessions, view, ada):
    chat = ada.shown.chat().id
    answered(ada, chat)
    other = ada.shown.new_chat().id
    ada.store.delete(chat)
    handlers = Answering(sessions, view)
    for gone in (chat, None):
        update = shown(view, handlers.ask("Still there?", gone, None, [], "refuse", Followed(), by("ada")))
        assert set(update) == {"notice"}
        update = shown(view, handlers.turn(gone, Followed(), by("ada"), clicked(kind="regenerate")))
        assert set(update) == {"notice"}
    assert ada.store.path(other) == []


def test_options_of_a_conversation_that_is_gone_change_no_other(sessions, view, ada, tmp_path):
    upload = tmp_path / "one.md"
    upload.write_bytes(b"# T\n\n<!-- omnidraft: user -->\nHi\n")
    chat, bob = ada.shown.chat().id, sessions.get("bob")
    before = bob.shown.chat()
    chosen = Options(sessions, view)
    for updates in (
        chosen.keep(by("bob"), before.id, chat, *values_of(bob, "For Ada only")),
        chosen.preset("Exact", chat, by("bob")),
        chosen.speculate(False, chat, by("bob")),
        chosen.target(str(bob.target_path()), chat, by("bob")),
        Conversations(sessions, view).import_file(str(upload), chat, Followed(), by("bob")),
    ):
        update = shown(view, updates)
        assert set(update) == {"notice"}
        assert GONE in update["notice"]
    assert bob.store.conversations() == [before]
    assert bob.settings.target is None
    assert not upload.exists()
    # The list leads on from there.
    row = Conversations(sessions, view).row(chat, Followed(), by("bob"), clicked(kind="open", id=before.id))
    assert shown(view, row)["chat_id"] == before.id


def test_options_that_arrive_late_are_kept_with_the_conversation_they_were_written_for(sessions, view, ada):
    left = ada.shown.chat().id
    ada.store.rename(left, "Left")
    shown_now = ada.shown.show(ada.store.create().id).id
    update = shown(view, Options(sessions, view).keep(by("ada"), shown_now, left, *values_of(ada, "Be brief.")))
    assert ada.store.get(left).system == "Be brief."
    assert ada.store.get(shown_now).system == ""
    assert set(update) == {"notice"}, "the preset on the page is the other conversation's"
    assert ada.shown.chat().id == shown_now


def test_a_conversation_that_is_not_there_is_not_called_deleted(sessions, view, ada):
    chat = ada.shown.chat().id
    sessions.get("bob").shown.chat()
    row = Conversations(sessions, view).row(chat, Followed(), by("bob"), clicked(kind="delete", id=chat))
    assert "no longer exists" in shown(view, row)["notice"]


def test_what_was_deleted_last_comes_back_whole_and_once(sessions, view, ada):
    one, _ = spoken(ada)
    two, _ = spoken(ada)
    ada.store.update(one, pinned=True, tags=["kept"])
    before = [ada.store.snapshot(chat) for chat in (one, two)]
    chats = Conversations(sessions, view)
    update = shown(view, chats.row(one, Followed(), by("ada"), clicked(kind="delete", id="", ids=[one, two])))
    assert "2 conversations were deleted" in update["notice"]
    assert not {one, two} & {chat.id for chat in ada.store.conversations()}
    taken_back = clicked(mark=mark_of(update["notice"]))
    assert TOO_LATE in shown(view, chats.undo(update["chat_id"], Followed(), by("bob"), taken_back))["notice"]
    assert shown(view, chats.undo(update["chat_id"], Followed(), by("ada"), taken_back))["chat_id"] == one
    assert [ada.store.snapshot(chat) for chat in (one, two)] == before
    assert ada.store.search("one"), "what comes back is found"
    assert TOO_LATE in shown(view, chats.undo(one, Followed(), by("ada"), taken_back))["notice"]


def mark_of(notice: str) -> str:
    return re.search(r'class="od-undo" data-mark="(\w+)"', notice)[1]


def test_an_older_notice_brings_nothing_else_back(sessions, view, ada):
    one, two, stays = (ada.store.create().id for _ in range(3))
    chats, notices = Conversations(sessions, view), []
    for chat in (one, two):
        deleted = chats.row(stays, Followed(), by("ada"), clicked(kind="delete", id=chat))
        notices.append(shown(view, deleted)["notice"])
    older, newer = (clicked(mark=mark_of(notice)) for notice in notices)
    assert TOO_LATE in shown(view, chats.undo(stays, Followed(), by("ada"), older))["notice"]
    assert {chat.id for chat in ada.store.conversations()} == {stays}
    assert shown(view, chats.undo(stays, Followed(), by("ada"), newer))["chat_id"] == two


def test_an_archived_conversation_stands_last_and_is_not_arrived_at(sessions, view, ada):
    chat, _ = spoken(ada)
    other, _ = spoken(ada)
    chats = Conversations(sessions, view)
    update = shown(view, chats.row(other, Followed(), by("ada"), clicked(kind="archive", id=chat)))
    assert update["rows"].index(other) < update["rows"].index("Archived · 1") < update["rows"].index(chat)
    ada.store.update(other, archived=True)
    assert ada.store.latest() is None or ada.store.latest().id not in (chat, other)
    update = shown(view, chats.row(other, Followed(), by("ada"), clicked(kind="unarchive", id=chat)))
    assert update["rows"].index(chat) < update["rows"].index("Archived · 1")


def test_an_answer_whose_conversation_was_deleted_meanwhile_leaves_a_sentence(sessions, view, ada):
    chat = ada.shown.chat().id
    begun(ada, chat)
    handlers, followed = Answering(sessions, view), Followed()
    follows = handlers.follow(chat, followed, by("ada"))
    next(follows)
    list(Conversations(sessions, view).row(None, Followed(), by("ada"), clicked(kind="delete", id=chat)))
    list(follows)
    update = shown(view, [handlers.ended(chat, followed, by("ada"))])
    assert GONE in update["notice"]
    assert update["send"].visible


def test_another_answer_leaves_what_is_being_written(sessions, view, ada):
    chat = ada.shown.chat().id
    answered(ada, chat)
    for kind in ("regenerate", "continue"):
        update = shown(view, Answering(sessions, view).turn(chat, Followed(), by("ada"), clicked(kind=kind)))
        ada.job.join(10)
        assert "marks" in update, "it was started"
        assert not set(update) & set(WRITTEN)
    begun_by_api(ada)
    update = shown(view, Answering(sessions, view).turn(chat, Followed(), by("ada"), clicked(kind="regenerate")))
    assert "still being written" in update["notice"]
    assert not set(update) & set(WRITTEN)


def test_what_was_sent_leaves_the_box_and_comes_back_if_it_is_refused(sessions, view, ada):
    chat = ada.shown.chat().id
    update = shown(view, Answering(sessions, view).ask("Hello", chat, None, FILES, "refuse", Followed(), by("ada")))
    ada.job.join(10)
    assert (update["box"], update["attached"], update["editing"]) == ("", [], None)
    begun_by_api(ada)
    update = shown(view, Answering(sessions, view).ask("And now?", chat, None, FILES, "refuse", Followed(), by("ada")))
    assert (update["box"], update["attached"]) == ("And now?", FILES)
    assert len(ada.store.path(chat)) == 2


def test_what_is_being_written_stays_until_another_conversation_is_shown(sessions, view, ada):
    chat = ada.shown.chat().id
    answered(ada, chat)
    list(Answering(sessions, view).turn(chat, Followed(), by("ada"), clicked(kind="regenerate")))
    ada.job.join(10)
    answer = ada.store.path(chat)[-1].id
    update = shown(
        view, Answering(sessions, view).turn(chat, Followed(), by("ada"), clicked(kind="version", id=answer, step=1))
    )
    assert update["chat_id"] == chat
    assert not set(update) & set(WRITTEN)
    chats = Conversations(sessions, view)
    other = ada.store.create().id
    update = shown(view, chats.row(chat, Followed(), by("ada"), clicked(kind="delete", id=other)))
    assert "deleted" in update["notice"]
    assert not set(update) & set(WRITTEN)
    update = shown(view, chats.fresh(chat, Followed(), by("ada")))
    assert (update["editing"], update["attached"]) == (None, [])


def test_a_refused_message_leaves_the_button_that_sends(sessions, view, ada):
    chat, busy = ada.store.create().id, ada.store.create().id
    begun_by_api(ada)
    update = shown(view, Answering(sessions, view).ask("Hello", chat, None, FILES, "refuse", Followed(), by("ada")))
    assert update["send"].visible
    assert not update["stop"].visible
    ada.assistant.go_on.set()
    ada.job.join(10)
    begun(ada, busy)
    update = shown(view, Answering(sessions, view).ask("Hello", chat, None, FILES, "refuse", Followed(), by("ada")))
    assert update["send"].visible
    update = shown(view, Answering(sessions, view).ask("Hello", busy, None, FILES, "refuse", Followed(), by("ada")))
    assert update["stop"].visible


def test_stop_ends_the_answer_of_the_page_and_no_other(sessions, view, ada):
    chat, other = ada.store.create().id, ada.store.create().id
    handlers = Answering(sessions, view)
    begun_by_api(ada)
    for shown_there in (chat, None):
        handlers.halt(shown_there, by("ada"))
    assert not ada.job.stopped
    ada.assistant.go_on.set()
    ada.job.join(10)
    begun(ada, chat)
    handlers.halt(other, by("ada"))
    assert not ada.job.stopped
    handlers.halt(chat, by("ada"))
    assert ada.job.stopped


def test_a_page_follows_only_what_it_shows(sessions, view, ada, tmp_path):
    upload = tmp_path / "one.json"
    upload.write_bytes(b"{")
    chat, other = ada.store.create().id, ada.store.create().id
    begun(ada, chat)
    handlers, chats, followed = Answering(sessions, view), Conversations(sessions, view), Followed()
    follows = handlers.follow(chat, followed, by("ada"))
    assert view.chat in next(follows)
    list(chats.import_file(str(upload), chat, followed, by("ada")))
    assert view.chat in next(follows), "a file that was refused changes nothing"
    list(chats.row(chat, followed, by("ada"), clicked(kind="open", id=other)))
    assert [view.chat in update for update in follows] == [False]
    assert not followed.ended
    # Back again it is followed anew, to its end.
    list(chats.row(other, followed, by("ada"), clicked(kind="open", id=chat)))
    follows = handlers.follow(chat, followed, by("ada"))
    assert view.chat in next(follows)
    ada.stop(chat)
    list(follows)
    assert followed.ended


def test_an_older_answers_end_is_told_where_its_conversation_is_opened_and_does_not_cover_an_undo(sessions, view, ada):
    answered, doomed = ada.store.create().id, ada.store.create().id
    begun(ada, answered)
    ada.stop(answered)
    ada.job.join(10)
    answering, chats = Answering(sessions, view), Conversations(sessions, view)

    def told(kind: str, which: str) -> bool:
        """Whether what follows the click tells of the answer."""
        followed = Followed()
        assert chats.row(doomed, followed, by("ada"), clicked(kind=kind, id=which))[view.chat_id] == answered
        list(answering.follow(answered, followed, by("ada")))
        return view.notice in answering.ended(answered, followed, by("ada"))

    assert told("open", answered)
    assert not told("delete", doomed)


def test_of_two_clicks_whose_handlers_overtake_each_other_the_last_counts(sessions, view, monkeypatch):
    session, chats, followed = sessions.get("ada"), Conversations(sessions, view), Followed()
    first, second = session.store.create("first").id, session.store.create("second").id
    late, show = clicked(kind="open", id=second, at=2.0), type(session.shown).show

    def slow(of, chat):
        if chat == first:
            assert chats.row(None, followed, by("ada"), late)[view.chat_id] == second
        return show(of, chat)

    monkeypatch.setattr(type(session.shown), "show", slow)
    assert view.chat_id not in chats.row(None, followed, by("ada"), clicked(kind="open", id=first, at=1.0))
    left = followed.left
    assert view.chat_id not in chats.row(None, followed, by("ada"), clicked(kind="open", id=first, at=1.5))
    assert followed.left == left, "what is followed now is followed on"


def test_a_conversation_goes_on_with_the_model_it_began_with(sessions, view, ada, models):
    one, other = (models / f"tiny-target-{name}-f16.gguf" for name in "ab")
    first, second = ada.store.create().id, ada.store.create().id
    answered(ada, first)
    list(Options(sessions, view).target(str(other), second, by("ada")))
    answered(ada, second)
    assert (ada.store.get(first).target, ada.store.get(second).target) == (one.stem, other.stem)
    opened = shown(
        view, Conversations(sessions, view).row(second, Followed(), by("ada"), clicked(kind="open", id=first))
    )
    assert opened["target"]["value"] == str(one)
    answered(ada, first)
    opened = shown(
        view, Conversations(sessions, view).row(first, Followed(), by("ada"), clicked(kind="open", id=second))
    )
    assert opened["target"]["value"] == str(other)
    answered(ada, second)
    assert ada.assistant.answered == [one.stem, other.stem, one.stem, other.stem]
    new = ada.store.create().id
    answered(ada, new)
    assert ada.store.get(new).target == other.stem, "what was chosen last is where new ones begin"


def test_no_folder_is_looked_through_before_an_answer_begins(ada, view, monkeypatch):
    scans, scan = [], omnidraft.app.conversing.models_list.scan
    monkeypatch.setattr(omnidraft.app.conversing.models_list, "scan", lambda who: scans.append(who) or scan(who))
    chat = ada.store.create().id
    for _ in range(2):  # its first message, and one when it has a model of its own
        scans.clear()
        begun(ada, chat)
        next(view.follow(ada, chat, Followed()))
        assert not ada.job.over
        assert not scans
        ada.assistant.go_on.set()
        ada.job.join(10)
    assert ada.store.get(chat).target


def test_a_conversation_from_elsewhere_names_no_file_to_be_opened(ada, tmp_path):
    for name in (str(tmp_path / "trap.gguf"), "/dev/zero", "../../etc", "not-here"):
        chat = ada.store.create(target=name).id
        assert omnidraft.app.conversing.target_of(ada, chat) is None


def spoken(session) -> tuple[str, list]:
    """A conversation of two turns, and its messages."""
    chat = session.store.create().id
    for text in ("one", "two"):
        answered(session, chat, text)
        session.store.save_partial(session.job.message, f"answer {text}", final=True)
    return chat, session.store.path(chat)


def contents(session, chat: str) -> list[str]:
    return [m.content for m in session.store.path(chat)]


def test_an_answer_can_be_edited_and_its_old_version_stays(sessions, view, ada):
    chat, (_, said, *_) = spoken(ada)
    handlers, asked = Answering(sessions, view), len(ada.assistant.answered)
    update = shown(view, handlers.turn(chat, Followed(), by("ada"), clicked(kind="edit", id=said.id)))
    assert (update["box"], update["editing"]) == ("answer one", said.id)
    update = shown(view, handlers.ask("In my words", chat, said.id, [], "refuse", Followed(), by("ada")))
    assert (update["box"], update["editing"], update["cancel"].visible) == ("", None, False)
    assert contents(ada, chat) == ["one", "In my words"]
    assert [m.content for m in ada.store.siblings(said.id)] == ["answer one", "In my words"]
    assert len(ada.assistant.answered) == asked, "no model was asked"
    answered(ada, chat, "three")
    assert contents(ada, chat)[:3] == ["one", "In my words", "three"]


def test_a_turn_can_be_deleted_but_not_while_it_is_answered(sessions, view, ada):
    chat, (first, *_) = spoken(ada)
    handlers = Answering(sessions, view)
    update = shown(view, handlers.turn(chat, Followed(), by("ada"), clicked(kind="delete", id=first.id)))
    assert "deleted" in update["notice"]
    assert contents(ada, chat) == ["two", "answer two"]
    begun(ada, chat, "three")
    update = shown(
        view, handlers.turn(chat, Followed(), by("ada"), clicked(kind="delete", id=ada.store.path(chat)[0].id))
    )
    assert "still being written" in update["notice"]
    assert contents(ada, chat)[0] == "two"


def test_a_conversation_can_go_on_elsewhere_from_any_message(sessions, view, ada):
    chat, (_, said, *_) = spoken(ada)
    followed = Followed()
    follower = followed.begin()
    update = shown(view, Answering(sessions, view).turn(chat, followed, by("ada"), clicked(kind="fork", id=said.id)))
    assert followed.by != follower, "what is being written belongs to the conversation that was left"
    assert update["chat_id"] != chat
    assert contents(ada, update["chat_id"]) == ["one", "answer one"]
    assert contents(ada, chat) == ["one", "answer one", "two", "answer two"]
    assert ada.shown.chat().id == update["chat_id"]


def test_messages_of_another_profile_are_neither_deleted_nor_copied(sessions, view, ada):
    _, (first, *_) = spoken(ada)
    bob = sessions.get("bob")
    chat = bob.store.create().id
    for kind in ("delete", "fork", "edit"):
        update = shown(
            view, Answering(sessions, view).turn(chat, Followed(), by("bob"), clicked(kind=kind, id=first.id))
        )
        assert "no longer exists" in update["notice"]
    assert len(bob.store.conversations()) == 1
    assert ada.store.message(first.id).content == "one"


def test_a_pinned_conversation_stands_first(sessions, view, ada):
    chat, _ = spoken(ada)
    other, _ = spoken(ada)
    chats = Conversations(sessions, view)
    rows = shown(view, chats.row(other, Followed(), by("ada"), clicked(kind="pin", id=chat)))["rows"]
    assert rows.index("Pinned") < rows.index(chat) < rows.index("Today") < rows.index(other)
    rows = shown(view, chats.row(other, Followed(), by("ada"), clicked(kind="unpin", id=chat)))["rows"]
    assert "Pinned" not in rows


def test_a_running_answer_is_marked_in_the_list_and_can_be_stopped_there(sessions, view, ada):
    quiet, chat = ada.store.create("quiet").id, ada.store.create("busy").id
    begun(ada, chat)
    chats = Conversations(sessions, view)
    rows = chats.search("", quiet, by("ada"))
    assert rows.count('data-kind="stop"') == 1
    assert "Stop the answer in busy" in rows
    assert "Stop the answer in busy" in chats.search("busy", quiet, by("ada"))
    shown(view, chats.row(quiet, Followed(), by("ada"), clicked(kind="stop", id=quiet)))
    assert ada.writing(chat), "there was nothing to stop in the quiet one"
    rows = shown(view, chats.row(quiet, Followed(), by("ada"), clicked(kind="stop", id=chat)))["rows"]
    assert ada.job.stopped
    assert 'data-kind="stop"' not in rows


def events(sessions) -> list:
    with gr.Blocks() as blocks:
        chat_page.build(sessions)
    return list(blocks.fns.values())


def test_an_answer_is_followed_behind_every_event_that_interrupts_it(sessions):
    made = events(sessions)
    behind = {fn.trigger_after for fn in made if fn.name == "follow"}
    assert {fn.name for fn in made if fn._id in behind} == {
        "arrive", "ask", "example", "turn", "decide", "row", "import_file",
    }  # fmt: skip


def test_of_values_that_come_faster_than_they_are_kept_the_last_one_counts(sessions):
    modes = {fn.name: fn.trigger_mode for fn in events(sessions)}
    assert {modes[name] for name in ("keep", "preset", "speculate", "search")} == {"always_last"}


def test_a_pinned_conversation_stands_in_the_way_of_no_other(sessions, view, ada):
    first = ada.shown.chat().id
    begun(ada, first, "one")
    ada.job.join(10)
    ada.store.update(first, pinned=True)
    empty = ada.shown.new_chat().id
    assert empty != first
    assert ada.shown.new_chat().id == empty, "empty conversations pile up"
    assert ada.store.latest().id == empty
    assert ada.store.conversations(1)[0].id == first


def test_a_page_that_has_left_does_not_wait_for_a_model_to_be_loaded(sessions, view, ada):
    chat, followed, loaded = ada.shown.chat().id, Followed(), threading.Event()
    updates = view.run(ada, chat, followed, lambda: loaded.wait(20), asked="Hello")
    next(updates)
    followed.leave()
    assert list(updates) == []
    assert not loaded.is_set()
    loaded.set()


@pytest.mark.parametrize("editing", [False, True])
def test_a_question_refused_when_the_page_has_left_stays_in_its_conversation_with_the_reason(
    sessions, view, ada, monkeypatch, editing
):
    chat, followed, refuse = ada.store.create().id, Followed(), threading.Event()
    earlier = ada.store.append(chat, "user", "Hi").id if editing else None

    def load(*given: object, **named: object) -> list[str]:
        refuse.wait(20)
        raise ModelError("The file is damaged.")

    monkeypatch.setattr(ada.assistant, "load", load)
    updates = Answering(sessions, view).ask("Hello", chat, earlier, FILES, "refuse", followed, by("ada"))
    next(updates)
    followed.leave()
    assert list(updates) == []
    refuse.set()
    until(lambda: len(ada.store.path(chat)) == 2)
    asked, answer = ada.store.path(chat)
    assert (asked.content, [file.name for file in asked.files]) == ("Hello", ["notes.txt"])
    assert "The file is damaged." in answer.meta["error"]
    assert len(ada.store.siblings(asked.id)) == 1 + editing


def until(what) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_question_whose_program_was_killed_before_its_turn_can_be_asked_again(sessions, view, ada):
    chat = ada.store.create().id
    ada.store.append(chat, "user", "Still here?")
    update = shown(view, view.whole(ada, ada.store.get(chat)))
    assert [row["content"]["text"] for row in update["chat"]] == ["Still here?", UNANSWERED]
    assert '"again": true' in unescape(update["marks"])
    list(Answering(sessions, view).turn(chat, Followed(), by("ada"), clicked(kind="regenerate")))
    until(lambda: len(ada.store.path(chat)) == 2)
    assert ada.assistant.answered
    assert '"again"' not in unescape(shown(view, view.whole(ada, ada.store.get(chat)))["marks"])


def test_what_is_chosen_in_a_message_or_all_of_it_is_remembered(sessions, view, ada):
    chat = ada.store.create().id
    question = ada.store.append(chat, "user", "I have two cats, and it rains.").id
    answer = ada.store.append(chat, "assistant", "<think>Cats.</think>Noted.").id
    handlers, facts = Answering(sessions, view), ada.store.library.facts

    def remember(message: str, text: str) -> str:
        event = clicked(kind="remember", id=message, text=text)
        return shown(view, handlers.turn(chat, Followed(), by("ada"), event))["notice"]

    assert "Profiles page" in remember(question, "I have\n two cats")
    assert "Remembered already" in remember(question, "I have two cats")
    remember(answer, "")
    assert facts() == ["I have two cats", "Noted."]
    long = ada.store.append(chat, "user", "so " * 200).id
    assert "at most 300 characters: select them" in remember(long, "")
    assert len(facts()) == 2


def test_what_a_handler_still_shows_is_dropped_when_the_page_has_left():
    followed = Followed()
    updates = followed.while_shown(iter([{"first": 1}, {"second": 2}]))
    assert next(updates) == {"first": 1}
    followed.begin()
    followed.leave()
    assert list(updates) == []
