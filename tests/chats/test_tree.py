"""Versions: edits and regenerations are branches, and going back shows what was there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.chats import ChatStore
from omnidraft.errors import StorageError


def texts(messages):
    return [m.content for m in messages]


@pytest.fixture
def chat(store):
    """q1 - a1 - q2 - a2, all shown."""
    made = store.create()
    for role, content in (("user", "q1"), ("assistant", "a1"), ("user", "q2"), ("assistant", "a2")):
        store.append(made.id, role, content)
    return made.id


def test_a_message_cannot_answer_one_of_another_conversation(store, chat):
    other = store.create()
    with pytest.raises(StorageError, match="another conversation"):
        store.append(other.id, "user", "x", parent=store.path(chat)[0].id)
    with pytest.raises(StorageError, match="no longer exists"):
        store.append(other.id, "user", "x", parent="nowhere")
    assert store.path(other.id) == []


def test_a_very_long_conversation_is_no_problem(store):
    chat = store.create()
    parent = None
    with store._db.changing():  # one transaction, for the test's speed only
        for number in range(1100):
            parent = store.append(chat.id, "user", f"m{number}", parent=parent).id
    assert texts(store.path(chat.id)) == [f"m{number}" for number in range(1100)]
    assert len(store.select(parent)) == 1100
    store.delete(chat.id)  # deeper than SQLite's limit on nested cascades
    assert store.conversations() == []


class Model:
    """Brute force: every message with its parent; per parent the child shown last."""

    def __init__(self):
        self.messages, self.shown = [], {}  # (parent, content); parent -> index

    def path(self):
        found, here = [], self.shown.get(None)
        while here is not None:
            found.append(here)
            here = self.shown.get(here)
        return found

    def show(self, index):
        while index is not None:
            parent = self.messages[index][0]
            self.shown[parent] = index
            index = parent

    def add(self, parent):
        self.messages.append((parent, f"m{len(self.messages)}"))
        self.show(len(self.messages) - 1)

    def siblings(self, index):
        return [i for i, (parent, _) in enumerate(self.messages) if parent == self.messages[index][0]]


KINDS = st.sampled_from(["append", "root", "child", "edit", "select"])
ACTIONS = st.lists(st.tuples(KINDS, st.integers(0, 30)), max_size=25)


@settings(max_examples=25, deadline=None)
@given(ACTIONS)
def test_any_sequence_of_edits_and_selections_agrees_with_brute_force(tmp_path_factory, actions):
    model, ids = Model(), []
    with ChatStore(tmp_path_factory.mktemp("tree") / "chats.sqlite") as store:
        chat = store.create().id
        for action, number in actions:
            index = number % len(ids) if ids else None
            if action == "append" or index is None:
                last = model.path()[-1] if model.path() else None
                model.add(last)
                ids.append(store.append(chat, "user", model.messages[-1][1]).id)
            elif action in ("root", "child"):
                parent = None if action == "root" else index
                model.add(parent)
                above = None if parent is None else ids[parent]
                ids.append(store.append(chat, "assistant", model.messages[-1][1], parent=above).id)
            elif action == "edit":
                model.add(model.messages[index][0])
                ids.append(store.edit(ids[index], model.messages[-1][1]).id)
            else:
                model.show(index)
                store.select(ids[index])
            assert [m.id for m in store.path(chat)] == [ids[i] for i in model.path()]
        versions = store.versions(chat)
        for index, message in enumerate(ids):
            siblings = [ids[i] for i in model.siblings(index)]
            assert [m.id for m in store.siblings(message)] == siblings
            assert sum(m.active for m in store.siblings(message)) == 1
            assert versions[message] == (siblings.index(message) + 1, len(siblings))


def test_a_turn_is_deleted_with_its_answers_and_what_followed_moves_up(store, chat):
    q1, a1, q2, a2 = store.path(chat)
    store.append(chat, "assistant", "a1 again", parent=q1.id)
    store.select(a2.id)
    store.delete_turn(q1.id)
    assert texts(store.path(chat)) == ["q2", "a2"]
    assert store.get(chat).title == "q2", "nor does it name the conversation"
    assert len(store.snapshot(chat)[1]) == 2
    for gone in (q1, a1):
        with pytest.raises(StorageError):
            store.message(gone.id)
    store.append(chat, "user", "q3")
    store.delete_turn(q2.id)
    assert texts(store.path(chat)) == ["q3"]
    with pytest.raises(StorageError):
        store.delete_turn(a2.id)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["ask", "edit", "again", "select", "delete"]), st.integers(0, 50)),
                      max_size=25))  # fmt: skip
def test_one_version_of_every_turn_is_shown_whatever_is_deleted(tmp_path_factory, steps):
    with ChatStore(tmp_path_factory.mktemp("turns") / "chats.sqlite") as store:
        chat = store.create().id
        for kind, number in steps:
            everything = store.snapshot(chat)[1]
            one = everything[number % len(everything)] if everything else None
            questions = [m for m in everything if m.role == "user"]
            if kind == "ask" or one is None:
                question = store.append(chat, "user", f"q{number}")
                store.append(chat, "assistant", f"a{number}", parent=question.id)
            elif kind == "edit" and one.role == "user":
                store.edit(one.id, f"e{number}")
            elif kind == "again" and one.role == "user":
                store.append(chat, "assistant", f"b{number}", parent=one.id)
            elif kind == "select":
                store.select(one.id)
            elif kind == "delete" and questions:
                store.delete_turn(questions[number % len(questions)].id)
            left = store.snapshot(chat)[1]
            ids = {m.id for m in left}
            assert all(m.parent is None or m.parent in ids for m in left)
            parents = {m.parent for m in left}
            assert sum(m.active for m in left) == len(parents), "one version of each"


def test_a_fork_holds_what_was_said_up_to_there_and_leaves_the_other_alone(store, chat):
    _, a1, q2, a2 = store.path(chat)
    store.update(chat, system="Be brief.", pinned=True)
    fork = store.fork(a1.id)
    assert texts(store.path(fork.id)) == ["q1", "a1"]
    assert (fork.system, fork.pinned, fork.title) == ("Be brief.", False, "q1 (fork)")
    store.append(fork.id, "user", "another way")
    store.edit(q2.id, "not shown there")
    assert texts(store.path(store.fork(a2.id).id)) == ["q1", "a1", "q2", "a2"], "also from a version that is not shown"
    assert store.search("another")[0].conversation.id == fork.id
    assert texts(store.path(chat)) == ["q1", "a1", "not shown there"]
