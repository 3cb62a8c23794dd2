"""What the chat page's handlers do for one page while other tabs, profiles and clients of the API go about theirs."""

from __future__ import annotations

import re
import threading
from html import unescape

import pytest

from omnidraft.app import conversing
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.room import Room
from omnidraft.app.sessions import Sessions
from omnidraft.chats import TextFile, export_json
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from tests.ui.fake_assistant import by, clicked, fake_sessions, shown
from tests.until import until
from ui.chat.conversations import TOO_LATE, Conversations
from ui.chat.events import Answering, OptionEvents
from ui.chat.following import Followed
from ui.chat.parts import GONE, empty_state
from ui.chat.turns import UNANSWERED, WAITING
from ui.models.downloads import suggestions

FILES = [TextFile("notes.txt", "Buy milk.")]
WRITTEN = ("box", "attached", "editing")


class Page:
    """A page of one profile: its handlers, and what each of them shows, by the names of the components."""

    def __init__(self, sessions: Sessions, view, profile: str) -> None:
        self.view, self.who = view, by(profile)
        self.answering, self.chats, self.options = (
            made(sessions, view) for made in (Answering, Conversations, OptionEvents)
        )  # fmt: skip

    def ask(self, text: str, chat: str | None, editing: str | None = None, files=FILES) -> dict:
        updates = self.answering.ask(text, chat, editing, files, Followed(), self.who)
        return shown(self.view, updates)

    def turn(self, chat: str | None, **click: object) -> dict:
        """A click on a button of a message."""
        return shown(self.view, self.answering.turn(chat, Followed(), self.who, clicked(**click)))

    def row(self, chat: str | None, **click: object) -> dict:
        """A click in the list of conversations."""
        return shown(self.view, self.chats.row(chat, Followed(), self.who, clicked(**click)))

    def undo(self, chat: str, mark: str) -> dict:
        return shown(self.view, self.chats.undo(chat, Followed(), self.who, clicked(mark=mark)))

    def recover(self, chat: str) -> dict:
        return shown(self.view, self.chats.undo(chat, Followed(), self.who, clicked(kind="recover")))


@pytest.fixture
def sessions(tmp_path, monkeypatch, models):
    for made in fake_sessions(tmp_path, monkeypatch, models / "tiny-target-a-f16.gguf"):
        for name in ("ada", "bob"):
            made.get(name)
        yield made


@pytest.fixture
def ada(sessions):
    return sessions.get("ada")


@pytest.fixture
def bob(sessions):
    return sessions.get("bob")


@pytest.fixture
def page(sessions, view, ada):
    return Page(sessions, view, "ada")


@pytest.fixture
def other_page(sessions, view, bob):
    """A page of another profile."""
    return Page(sessions, view, "bob")


def answered(session, chat: str, text: str = "Hello") -> None:
    conversing.ask(session, chat, text)
    session.job.join(10)


def begun(session, chat: str, text: str = "Hello") -> None:
    """An answer that does not end by itself."""
    session.prepare()
    session.assistant.go_on.clear()
    conversing.ask(session, chat, text)


def begun_by_api(session) -> None:
    session.prepare()
    session.assistant.go_on.clear()
    job = AnswerJob(session.assistant, AnswerRequest([]))
    session.queue.enter(lambda _: session.start(job)).begun.result()


def spoken(session) -> tuple[str, list]:
    """A conversation of two turns, and its messages."""
    chat = session.store.create().id
    for text in ("one", "two"):
        answered(session, chat, text)
        session.store.save_partial(session.job.message, f"answer {text}", final=True)
    return chat, session.store.path(chat)


def contents(session, chat: str) -> list[str]:
    return [m.content for m in session.store.path(chat)]


def values_of(session, system: str) -> list:
    """What the options' components send."""
    s = session.settings.sampling
    return [system, s.temperature, s.top_p, s.min_p, s.top_k, s.repeat_penalty, s.max_tokens, "", s.thinking]


# What belongs to others, or is gone


@pytest.mark.parametrize("editing", [None, "some message"])
def test_a_message_never_lands_in_another_profile(other_page, ada, bob, editing):
    chat, theirs = ada.shown.chat().id, bob.shown.chat().id
    update = other_page.ask("For Ada only", chat, editing)
    assert GONE in update.pop("notice")
    assert update == {}, "text and files stay in the box"
    assert bob.store.path(theirs) == ada.store.path(chat) == []
    assert len(bob.store.conversations()) == 1


def test_a_message_never_lands_in_another_conversation(page, ada):
    chat = ada.shown.chat().id
    answered(ada, chat)
    other = ada.shown.new_chat().id
    ada.store.delete(chat)
    for gone in (chat, None):
        assert set(page.ask("Still there?", gone, files=[])) == {"notice"}
        assert set(page.turn(gone, kind="regenerate")) == {"notice"}
    assert ada.store.path(other) == []


def test_options_of_a_conversation_that_is_gone_change_no_other(other_page, ada, bob, tmp_path):
    upload = tmp_path / "one.json"
    upload.write_text(export_json(ada.store))
    chat, before, who = ada.shown.chat().id, bob.shown.chat(), by("bob")
    options = other_page.options
    for updates in (
        options.keep(who, before.id, chat, *values_of(bob, "For Ada only")),
        options.preset("Exact", chat, who),
        options.speculate(False, chat, who),
        options.target(str(bob.target_path()), chat, Followed(), who),
        other_page.chats.import_file(str(upload), chat, Followed(), who),
    ):
        update = shown(other_page.view, updates)
        assert set(update) == {"notice"}
        assert GONE in update["notice"]
    assert bob.store.conversations() == [before]
    assert bob.settings.target is None
    assert not upload.exists()
    assert other_page.row(chat, kind="open", id=before.id)["chat_id"] == before.id, "the list leads on from there"


def test_options_that_arrive_late_are_kept_with_the_conversation_they_were_written_for(page, ada):
    left = ada.shown.chat().id
    ada.store.rename(left, "Left")
    shown_now = ada.shown.show(ada.store.create().id).id
    update = shown(page.view, page.options.keep(page.who, shown_now, left, *values_of(ada, "Be brief.")))
    assert (ada.store.get(left).system, ada.store.get(shown_now).system) == ("Be brief.", "")
    assert set(update) == {"notice"}, "the preset on the page is the other conversation's"
    assert ada.shown.chat().id == shown_now


def test_messages_of_another_profile_are_neither_deleted_nor_copied(other_page, ada, bob):
    _, (first, *_) = spoken(ada)
    chat = bob.store.create().id
    for kind in ("delete", "fork", "edit"):
        assert "no longer exists" in other_page.turn(chat, kind=kind, id=first.id)["notice"]
    assert len(bob.store.conversations()) == 1
    assert ada.store.message(first.id).content == "one"


def test_a_conversation_from_elsewhere_names_no_file_to_be_opened(ada, tmp_path):
    for name in (str(tmp_path / "trap.gguf"), "/dev/zero", "../../etc", "not-here"):
        assert conversing.target_of(ada, ada.store.create(target=name).id) is None


# The list of conversations


def test_what_was_deleted_last_comes_back_whole_and_once(page, other_page, ada):
    (one, _), (two, _) = spoken(ada), spoken(ada)
    ada.store.update(one, pinned=True)
    before = [ada.store.snapshot(chat) for chat in (one, two)]
    update = page.row(one, kind="delete", id="", ids=[one, two])
    assert "2 conversations were deleted" in update["notice"]
    assert not {one, two} & {chat.id for chat in ada.store.conversations()}
    mark = re.search(r'class="od-undo" .*data-mark="(\w+)"', update["notice"])[1]
    assert TOO_LATE in other_page.undo(update["chat_id"], mark)["notice"]
    assert page.undo(update["chat_id"], mark)["chat_id"] == one
    assert [ada.store.snapshot(chat) for chat in (one, two)] == before
    assert ada.store.search("one"), "what comes back is found"
    assert TOO_LATE in page.undo(one, mark)["notice"]


def test_a_pinned_conversation_stands_first_and_an_archived_one_last(page, ada):
    (chat, _), (other, _) = spoken(ada), spoken(ada)
    rows = page.row(other, kind="pin", id=chat)["rows"]
    assert rows.index("Pinned") < rows.index(chat) < rows.index("Today") < rows.index(other)
    page.row(other, kind="unpin", id=chat)
    rows = page.row(other, kind="archive", id=chat)["rows"]
    assert "Pinned" not in rows
    assert rows.index(other) < rows.index("Archived · 1") < rows.index(chat)
    ada.store.update(other, archived=True)
    assert ada.store.latest() is None or ada.store.latest().id not in (chat, other), "nobody arrives there"


def test_a_running_answer_is_marked_in_the_list_and_can_be_stopped_there(page, ada):
    quiet, chat = ada.store.create("quiet").id, ada.store.create("busy").id
    begun(ada, chat)
    rows = page.chats.search("", quiet, page.who)
    assert rows.count('data-kind="stop"') == 1
    assert "Stop the answer in busy" in rows
    page.row(quiet, kind="stop", id=quiet)
    assert ada.writing(chat), "there was nothing to stop in the quiet one"
    assert 'data-kind="stop"' not in page.row(quiet, kind="stop", id=chat)["rows"]
    assert ada.job.stopped


def test_of_two_clicks_whose_handlers_overtake_each_other_the_last_counts(page, ada, monkeypatch):
    view, followed = page.view, Followed()
    first, second = ada.store.create("first").id, ada.store.create("second").id
    show = type(ada.shown).show

    def click(chat: str, at: float) -> dict:
        return page.chats.row(None, followed, page.who, clicked(kind="open", id=chat, at=at))

    def slow(of, chat):
        if chat == first:
            assert click(second, 2.0)[view.chat_id] == second
        return show(of, chat)

    monkeypatch.setattr(type(ada.shown), "show", slow)
    assert view.chat_id not in click(first, 1.0)
    left = followed.left
    assert view.chat_id not in click(first, 1.5)
    assert followed.left == left, "what is followed now is followed on"


def test_a_new_conversation_tells_of_the_model_that_is_coming(page, ada, models, monkeypatch):
    coming, loading, go_on = models / "tiny-target-b-f16.gguf", threading.Event(), threading.Event()
    load = ada.assistant.load

    def slow(*given, **more):
        loading.set()
        assert go_on.wait(30)
        return load(*given, **more)

    answered(ada, ada.shown.chat().id)
    monkeypatch.setattr(ada.assistant, "load", slow)
    chat, followed = ada.shown.chat().id, Followed()
    told: list[dict] = []
    switching = threading.Thread(
        target=lambda: told.extend(page.options.target(str(coming), chat, followed, page.who))
    )  # fmt: skip
    switching.start()
    try:
        assert loading.wait(10)
        new = shown(page.view, page.chats.fresh(chat, followed, page.who))
        assert new["target"]["value"] == str(coming)
    finally:
        go_on.set()
    switching.join(10)
    assert set(shown(page.view, told[-1])) == {"notice"}, "the options shown are another conversation's"


# What is written in the box


def test_another_answer_leaves_what_is_being_written(page, ada):
    chat = ada.shown.chat().id
    answered(ada, chat)
    for kind in ("regenerate", "continue"):
        update = page.turn(chat, kind=kind)
        ada.job.join(10)
        assert "marks" in update, "it was started"
        assert not set(update) & set(WRITTEN)
    begun_by_api(ada)
    for kind in ("continue", "regenerate"):
        update = page.turn(chat, kind=kind)
        assert update["chat"][-1]["content"]["text"] == WAITING
        assert not set(update) & set(WRITTEN)
        ada.stop(chat)


def test_a_page_can_have_only_uploads_read(page, ada, sessions):
    chat, secret = ada.shown.chat().id, sessions.home.root / "secret.txt"
    secret.write_text("what nobody sent")
    told = []
    for path in (secret, sessions.home.uploads / ".." / "secret.txt"):
        taken = page.answering.take([], "", chat, None, Followed(), page.who, clicked(path=str(path), number=1))
        told.append(shown(page.view, taken))
    assert all("was not sent by a page" in update["reading"] and "attached" not in update for update in told)
    assert secret.exists()


def test_what_was_sent_leaves_the_box_and_comes_back_if_it_is_refused(page, ada):
    chat = ada.shown.chat().id
    update = page.ask("Hello", chat)
    ada.job.join(10)
    assert (update["box"], update["attached"], update["editing"]) == ("", [], None)
    asked = page.turn(chat, kind="edit", id=ada.store.path(chat)[0].id)
    assert (asked["box"], asked["attached"]) == ("Hello", FILES), "an edited one keeps its files"
    begun_by_api(ada)
    update = page.ask("And now?", chat)
    assert (update["box"], update["attached"], update["send"].visible) == ("And now?", FILES, True)
    assert len(ada.store.path(chat)) == 2


def attach(page, chat: str, name: str, text: str, followed: Followed) -> dict:
    """A file that the page has sent is attached to the message being written."""
    folder = page.answering.sessions.home.uploads
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    click = clicked(path=str(folder / name), number=1)
    return shown(page.view, page.answering.take([], "", chat, None, followed, page.who, click))


def test_files_that_were_not_sent_are_there_again_after_a_reload(page, other_page, ada):
    chat, followed = ada.shown.chat().id, Followed()
    files = attach(page, chat, "notes.txt", "Buy milk.", followed)["attached"]
    arrived = shown(page.view, page.answering.arrive("/", page.who))
    assert arrived["attached"] == files
    assert "notes.txt" in arrived["chips"]
    assert shown(page.view, other_page.answering.arrive("/", other_page.who))["attached"] == []
    kept = [path for path in ada.assistant.home.root.rglob("*") if path.is_file() and b"Buy milk" in path.read_bytes()]
    assert not kept, "nowhere on the disk"
    answered(ada, chat)
    edited = page.turn(chat, kind="edit", id=ada.store.path(chat)[0].id)
    assert edited["attached"] == []
    update = page.ask("Hello again", chat, edited["editing"], files=[])
    assert update["attached"] == files, "what was attached to the message before the edit"
    ada.job.join(10)
    page.ask("Sum up", chat, files=files)
    ada.job.join(10)
    assert shown(page.view, page.answering.arrive("/", page.who))["attached"] == []


def test_a_first_question_that_is_refused_stays_in_the_box_of_an_empty_chat(page, ada, monkeypatch):
    def load(*given: object, **named: object) -> list[str]:
        raise ModelError("The file is damaged.")

    answered(ada, ada.shown.chat().id)
    chat = ada.shown.new_chat().id
    ada.unload()
    monkeypatch.setattr(ada.assistant, "load", load)
    update = page.ask("What is gravity?", chat, files=[])
    assert "The file is damaged." in update["notice"]
    assert update["box"] == "What is gravity?"
    assert "gravity" not in update["rows"]
    assert ada.store.get(chat).title == "New chat"
    assert ada.shown.new_chat().id == chat, "the empty chat that one is in already"
    assert "gravity" not in page.row(chat, kind="open", id=ada.store.conversations()[-1].id)["rows"]


# Answers


def test_an_answer_whose_conversation_was_deleted_meanwhile_leaves_a_sentence(page, ada):
    chat, followed = ada.shown.chat().id, Followed()
    begun(ada, chat)
    follows = page.answering.follow(chat, followed, page.who)
    next(follows)
    page.row(None, kind="delete", id=chat)
    list(follows)
    update = shown(page.view, [page.answering.ended(chat, followed, page.who)])
    assert GONE in update["notice"]
    assert update["send"].visible


def test_stop_ends_the_answer_of_the_page_and_no_other(page, ada):
    chat, other = ada.store.create().id, ada.store.create().id
    begun_by_api(ada)
    for shown_there in (chat, None):
        page.answering.halt(shown_there, page.who)
    assert not ada.job.stopped
    ada.assistant.go_on.set()
    ada.job.join(10)
    begun(ada, chat)
    page.answering.halt(other, page.who)
    assert not ada.job.stopped
    page.answering.halt(chat, page.who)
    assert ada.job.stopped


def test_a_page_follows_only_what_it_shows(page, ada, tmp_path):
    upload = tmp_path / "one.json"
    upload.write_bytes(b"{")
    chat, other = ada.store.create().id, ada.store.create().id
    begun(ada, chat)
    view, followed = page.view, Followed()

    def opens(shown_now: str, to: str) -> None:
        list(page.chats.row(shown_now, followed, page.who, clicked(kind="open", id=to)))

    follows = page.answering.follow(chat, followed, page.who)
    assert view.chat in next(follows)
    list(page.chats.import_file(str(upload), chat, followed, page.who))
    assert view.chat in next(follows), "a file that was refused changes nothing"
    opens(chat, other)
    assert [view.chat in update for update in follows] == [False]
    assert not followed.ended
    opens(other, chat)  # followed anew, to its end
    follows = page.answering.follow(chat, followed, page.who)
    assert view.chat in next(follows)
    ada.stop(chat)
    list(follows)
    assert followed.ended


def test_a_conversation_goes_on_with_the_model_it_began_with(page, ada, models):
    one, other = (models / f"tiny-target-{name}-f16.gguf" for name in "ab")
    first, second = ada.store.create().id, ada.store.create().id
    answered(ada, first)
    list(page.options.target(str(other), second, Followed(), page.who))
    answered(ada, second)
    assert (ada.store.get(first).target, ada.store.get(second).target) == (one.stem, other.stem)
    for chat, left, model in ((first, second, one), (second, first, other)):
        assert page.row(left, kind="open", id=chat)["target"]["value"] == str(model)
        answered(ada, chat)
    assert ada.assistant.answered == [one.stem, other.stem, one.stem, other.stem]
    new = ada.store.create().id
    answered(ada, new)
    assert ada.store.get(new).target == other.stem, "what was chosen last is where new ones begin"


def test_an_answer_can_be_edited_and_its_old_version_stays(page, ada):
    chat, (_, said, *_) = spoken(ada)
    asked = len(ada.assistant.answered)
    update = page.turn(chat, kind="edit", id=said.id)
    assert (update["box"], update["editing"]) == ("answer one", said.id)
    update = page.ask("In my words", chat, said.id, files=[])
    assert (update["box"], update["editing"], update["cancel"].visible) == ("", None, False)
    assert contents(ada, chat) == ["one", "In my words"]
    assert [m.content for m in ada.store.siblings(said.id)] == ["answer one", "In my words"]
    assert len(ada.assistant.answered) == asked, "no model was asked"
    answered(ada, chat, "three")
    assert contents(ada, chat)[:3] == ["one", "In my words", "three"]


def test_a_conversation_goes_on_from_any_turn_as_another_one(page, ada):
    chat, (_, said, *_) = spoken(ada)
    update = page.turn(chat, kind="fork", id=said.id)
    assert "the other one stays as it was" in update["notice"]
    assert contents(ada, update["chat_id"]) == ["one", "answer one"]
    assert len(contents(ada, chat)) == 4


def test_a_turn_can_be_deleted_but_not_while_it_is_answered(page, ada):
    chat, (first, *_) = spoken(ada)
    assert "deleted" in page.turn(chat, kind="delete", id=first.id)["notice"]
    assert contents(ada, chat) == ["two", "answer two"]
    begun(ada, chat, "three")
    assert "still being written" in page.turn(chat, kind="delete", id=ada.store.path(chat)[0].id)["notice"]
    assert contents(ada, chat)[0] == "two"


@pytest.mark.parametrize("editing", [False, True])
def test_a_question_refused_when_the_page_has_left_stays_in_its_conversation_with_the_reason(
    page, ada, monkeypatch, editing
):
    chat, followed, refuse = ada.store.create().id, Followed(), threading.Event()
    earlier = ada.store.append(chat, "user", "Hi").id if editing else None

    def load(*given: object, **named: object) -> list[str]:
        refuse.wait(20)
        raise ModelError("The file is damaged.")

    monkeypatch.setattr(ada.assistant, "load", load)
    updates = page.answering.ask("Hello", chat, earlier, FILES, followed, page.who)
    next(updates)
    followed.leave()
    assert list(updates) == []
    refuse.set()
    until(lambda: len(ada.store.path(chat)) == 2)
    asked, answer = ada.store.path(chat)
    assert (asked.content, [file.name for file in asked.files]) == ("Hello", ["notes.txt"])
    assert "The file is damaged." in answer.meta["error"]
    assert len(ada.store.siblings(asked.id)) == 1 + editing


def test_a_question_whose_program_was_killed_before_its_turn_can_be_asked_again(page, ada):
    chat = ada.store.create().id
    ada.store.append(chat, "user", "Still here?")
    update = shown(page.view, page.view.whole(ada, ada.store.get(chat)))
    assert [row["content"]["text"] for row in update["chat"]] == ["Still here?", UNANSWERED]
    assert '"again": true' in unescape(update["marks"])
    page.turn(chat, kind="regenerate")
    until(lambda: len(ada.store.path(chat)) == 2)
    assert ada.assistant.answered
    assert '"again"' not in unescape(shown(page.view, page.view.whole(ada, ada.store.get(chat)))["marks"])


def test_the_first_screen_names_the_models_that_are_here_before_any_to_be_fetched(ada, sessions, models):
    toy = models / "tiny-target-a-f16.gguf"
    assert "od-better" in empty_state(ada, toy)
    sessions.home.models.mkdir(parents=True, exist_ok=True)
    (sessions.home.models / "Own-1B.gguf").write_bytes((models / "tiny-target-b-f16.gguf").read_bytes())
    shown = empty_state(ada, toy)
    assert "Own-1B" in shown
    assert "od-better" not in shown


def test_what_is_here_is_not_offered_to_be_fetched():
    here = {"qwen2.5-1.5b-instruct-q4_k_m.gguf", "SmolLM2-135M-Instruct-Q4_1.gguf"}
    assert 'data-file="qwen2.5-1.5b"' in suggestions(Room(None))
    shown = suggestions(Room(None), here)
    assert not any(f'data-file="{name}"' in shown for name in ("qwen2.5-1.5b", "smollm2-135m"))
    assert 'data-file="qwen3-4b"' in shown


def test_damaged_conversations_are_told_with_a_button_that_recovers_them(sessions, view):
    home = sessions.home.profile("eve")
    home.chats.write_bytes(b"garbage" * 999)
    page = Page(sessions, view, "eve")
    arrived = shown(view, page.answering.arrive("/", page.who))
    assert "can be read" in arrived["notice"]
    assert 'data-kind="recover"' in arrived["notice"]
    refused = page.ask("Hello", arrived["chat_id"], files=[])
    assert 'data-kind="recover"' in refused["notice"]
    update = page.recover(arrived["chat_id"])
    assert "Recovered 0 conversations" in update["notice"]
    assert "recover" not in shown(view, page.answering.arrive("/", page.who))["notice"]
    assert home.chats.with_name("chats.sqlite.damaged-1").read_bytes() == b"garbage" * 999
    answered(sessions.get("eve"), update["chat_id"])
    assert len(sessions.get("eve").store.path(update["chat_id"])) == 2, "it goes on"
