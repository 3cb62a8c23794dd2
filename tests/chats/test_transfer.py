"""Export and import: what goes out comes back, and what is wrong changes nothing."""

import copy
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.chats import (
    ChatStore,
    export_json,
    export_markdown,
    import_json,
)
from omnidraft.chats.store import LastDeleted
from omnidraft.errors import StorageError
from omnidraft.settings.config import SamplingSettings
from tests.exports import elsewhere


def shape(store, chat):
    """A conversation without its ids: settings, and per message its place, text, role, time and meta."""
    conversation, messages = store.snapshot(chat)
    places = {m.id: number for number, m in enumerate(messages)}
    fields = [(places.get(m.parent), m.role, m.content, m.created, m.active, m.meta) for m in messages]
    kept = ("title", "created", "updated", "named", "system", "sampling", "target", "speculation", "pinned", "archived")
    return [getattr(conversation, name) for name in kept], fields


@pytest.fixture
def chat(store):
    made = store.create(
        system="Be brief.", sampling=SamplingSettings(top_k=4, stop=("\n",)), target="a", speculation=False
    )
    q1 = store.append(made.id, "user", "Tides?")
    a1 = store.append(made.id, "assistant", "Moon.", meta={"token_ids": [1], "origins": ["target"], "seed": 2**62})
    store.append(made.id, "assistant", "The moon 🌙\n\n```\ncode\n```", parent=q1.id)
    store.edit(q1.id, "Springs?")
    store.select(a1.id)
    return made.id


def test_json_keeps_every_version_setting_and_statistic(store, chat):
    ((imported,), _) = import_json(store, elsewhere(export_json(store, [chat])))
    assert shape(store, imported.id) == shape(store, chat)


def test_what_is_there_already_is_not_brought_again_and_nothing_collides(store, chat, tmp_path):
    text = export_json(store)
    assert import_json(store, text.encode()) == ([], 1)
    with ChatStore(tmp_path / "other.sqlite") as other:
        for brought in (1, 0):
            there, known = import_json(other, text)
            assert (len(there), known) == (brought, 1 - brought)
        assert shape(other, chat) == shape(store, chat)
        assert [hit.message for hit in other.search("springs")]
    store.delete(chat)
    ((back,), _) = import_json(store, text)
    assert back.id == chat
    import_json(store, elsewhere(text))
    ids = [m.id for c in store.conversations() for m in store.snapshot(c.id)[1]]
    assert len(ids) == len(set(ids)) == 8


def test_where_a_conversation_stood_and_that_it_has_tools_comes_back(store, chat, tmp_path):
    put_away = store.create(archived=True).id
    store.update(chat, pinned=True, tools=("calculator",))
    with ChatStore(tmp_path / "other.sqlite") as other:
        import_json(other, export_json(store))
        assert other.get(chat).pinned
        assert other.get(put_away).archived
        assert other.get(chat).tools == (), "it is asked about again"


@pytest.mark.parametrize("id", [None, 3, "", "../x", "A" * 32, "<b>"])
def test_an_id_that_none_of_ours_could_be_is_replaced(store, chat, id):
    whole = json.loads(export_json(store))
    whole["conversations"][0]["id"] = id
    ((brought,), _) = import_json(store, json.dumps(whole))
    assert re.fullmatch("[0-9a-f]{32}", brought.id)
    assert brought.id != chat


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["user", "assistant"]), TEXTS), max_size=12), TEXTS)
def test_any_tree_survives_json(tmp_path_factory, turns, system):
    with ChatStore(tmp_path_factory.mktemp("json") / "chats.sqlite") as store:
        chat = store.create(system=system).id
        ids = [None]
        for above, role, content in turns:
            ids.append(store.append(chat, role, content, parent=ids[above % len(ids)], meta={"n": above}).id)
        ((imported,), _) = import_json(store, elsewhere(export_json(store)))
        assert shape(store, imported.id) == shape(store, chat)


def test_markdown_reads_like_a_page_and_shows_the_active_branch(store, chat):
    assert export_markdown(store, chat) == (
        "# Springs?\n\n## System prompt\n\nBe brief.\n\n## User\n\nTides?\n\n## Assistant\n\nMoon.\n"
    )


BAD = [
    b"",
    b"\xff",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b'{"format": "omnidraft-chats"}',
    b'{"format": "omnidraft-chats", "version": 2, "conversations": []}',
    b'{"format": "omnidraft-chats", "version": 1}',
    b'{"format": "omnidraft-chats", "version": 1, "conversations": {}}',
    b'{"format": "omnidraft-chats", "version": 1, "conversations": [null]}',
    b'{"format": "omnidraft-chats", "version": 1, "conversations": [{}]}',
    b'{"format": "omnidraft-chats", "version": NaN, "conversations": []}',
]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_not_an_export_is_refused_with_one_sentence(store, chat, text):
    before = shape(store, chat)
    with pytest.raises(StorageError, match="The file cannot be imported") as error:
        import_json(store, text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250
    assert [c.id for c in store.conversations()] == [chat]
    assert shape(store, chat) == before


def broken(whole, change):
    whole = copy.deepcopy(whole)
    change(whole["conversations"][-1])
    return json.dumps(whole)


WRONG = {
    "unknown parent": lambda c: c["messages"][1].update(parent="elsewhere"),
    "child before parent": lambda c: c["messages"].reverse(),
    "same id twice": lambda c: c["messages"][1].update(id=c["messages"][0]["id"]),
    "role": lambda c: c["messages"][0].update(role="robot"),
    "two versions shown": lambda c: [m.update(active=True) for m in c["messages"]],
    "no version shown": lambda c: [m.update(active=False) for m in c["messages"]],
    "no content": lambda c: c["messages"][0].pop("content"),
    "huge time": lambda c: c.update(created=10**400),
    "list as meta": lambda c: c["messages"][0].update(meta=[]),
    "sampling": lambda c: c["sampling"].update(temperature=-1),
    "no messages": lambda c: c.pop("messages"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_one_wrong_conversation_keeps_all_of_a_file_out(store, chat, change):
    whole = json.loads(export_json(store, [chat, chat]))
    with pytest.raises(StorageError, match="cannot be imported"):
        import_json(store, broken(whole, change))
    assert len(store.conversations()) == 1


@pytest.mark.parametrize("depth", [60, 900, 100_000])
@pytest.mark.parametrize("inner", ['{"a":', "["])
def test_what_is_nested_too_deeply_is_refused_and_changes_nothing(store, chat, depth, inner):
    whole = json.loads(export_json(store))
    whole["conversations"][0]["messages"][0]["meta"] = {"deep": "here"}
    deep = inner * depth + "1" + {"[": "]"}.get(inner, "}") * depth
    text = json.dumps(whole).replace('"here"', deep)
    with pytest.raises(StorageError, match="nested too deeply"):
        import_json(store, text)
    assert len(store.conversations()) == 1


def test_a_deletion_is_taken_back_where_an_import_has_brought_it_already(store, chat):
    text, deleted = export_json(store), LastDeleted(store)
    mark = deleted.delete([chat, store.create().id])
    import_json(store, text)
    assert len(deleted.bring_back(mark)) == 1
    assert len(store.conversations()) == 2
