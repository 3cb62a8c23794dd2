"""Tags on conversations: written, kept, searched, carried, and of any other shape left out."""

from omnidraft.chats import export_json, import_json
from omnidraft.chats.records import MAX_TAGS, tags_of, written_tags


def test_tags_are_kept_searched_and_carried(store):
    chat = store.create("Plans")
    store.create("Other")
    assert store.update(chat.id, tags=written_tags("work, #Home,  work")).tags == ("work", "Home")
    assert store.get(chat.id) in store.conversations()
    assert [hit.conversation.id for hit in store.search("home")] == [chat.id]
    assert store.fork(store.append(chat.id, "user", "x").id).tags == ("work", "Home")
    (again,) = import_json(store, export_json(store, [chat.id]))
    assert again.tags == ("work", "Home")
    assert store.get(again.id).tags == ("work", "Home")
    assert store.update(chat.id, tags=()).tags == ()


def test_what_is_no_tag_is_left_out():
    assert tags_of(["a", 5, " ", None, "A", "b\u202e\nc", ["x"]]) == ("a", "b c")
    assert len(tags_of([f"t{n}" for n in range(50)])) == MAX_TAGS
    assert tags_of(["x" * 99])[0] == "x" * 30
    assert tags_of("text") == tags_of(None) == ()
    assert written_tags("#one #two, three;four") == ("one", "two", "three", "four")
