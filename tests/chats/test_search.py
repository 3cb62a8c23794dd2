"""Search: words, beginnings of words and titles are found, and no query breaks it."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnidraft.chats import ChatStore
from omnidraft.chats.search import folded


def say(store, *contents):
    chat = store.create("untitled")
    return chat, [store.append(chat.id, "user", content) for content in contents]


def found(store, query):
    return {hit.message for hit in store.search(query)}


def test_words_and_their_beginnings_are_found_in_any_case(store):
    _, (tides, other) = say(store, "Why do Tides follow the moon?", "Something else entirely")
    for query in ("tides", "TIDES moon", "tid", "moon fol", "Tides   follow\tthe"):
        assert found(store, query) == {tides.id}, query
    assert found(store, "tides else") == set()
    assert found(store, "e") >= {other.id}


@given(st.text(max_size=60))
@example("Łódź ﬁn ＡＢＣ ß İ e\u0301 \u03a9\u2126 각 ｶﾞ")
def test_folding_takes_case_and_accents_away_as_unicode_says(text):
    apart = unicodedata.normalize("NFKD", text.encode("utf-8", "replace").decode())
    kept = "".join(c for c in apart if not unicodedata.combining(c))
    assert folded(text) == "".join(c.casefold() for c in kept)
    assert folded(text + "".join(map(chr, range(0x400, 0x440)))).startswith(folded(text))  # many letters, another way


def test_accents_do_not_matter(store):
    _, (message,) = say(store, "Ein schönes Café in Łódź")
    for query in ("cafe", "CAFÉ", "schones", "cafe\u0301"):
        assert found(store, query) == {message.id}, query


def test_scripts_without_spaces_and_the_inside_of_words_are_found(store):
    _, messages = say(store, "今天天气很好，我们去公园吧", "ประเทศไทยสวยงาม", "unbelievable")
    assert found(store, "天气") == {messages[0].id}
    assert found(store, "公园") == {messages[0].id}
    assert found(store, "ไทย") == {messages[1].id}
    assert found(store, "believ") == {messages[2].id}


def test_titles_are_searched_too(store):
    chat = store.create("Trip to Zürich")
    (hit,) = store.search("zur")
    assert (hit.conversation, hit.message, hit.snippet) == (chat, None, "Trip to Zürich")


def test_every_version_is_searched_and_the_newest_comes_first(store):
    chat, (first,) = say(store, "apples are red")
    second = store.edit(first.id, "apples are green")
    assert [hit.message for hit in store.search("apples")] == [second.id, first.id]
    assert {hit.conversation.id for hit in store.search("apples")} == {chat.id}
    assert len(store.search("apples", limit=1)) == 1


def test_a_growing_answer_is_found_by_its_latest_text_only(store):
    _, (message,) = say(store, "")
    store.save_partial(message.id, "the draft mentions walruses")
    assert found(store, "walrus") == {message.id}
    store.save_partial(message.id, "the final mentions otters", final=True)
    assert found(store, "walrus") == set()
    assert found(store, "otter") == {message.id}


def test_the_snippet_is_one_short_line_around_the_words(store):
    say(store, "filler\n" * 500 + "the needle is\nhere " + "filler " * 500)
    (hit,) = store.search("needle")
    assert "needle is here" in hit.snippet
    assert len(hit.snippet) < 200
    assert "\n" not in hit.snippet


@settings(max_examples=80, deadline=None)
@given(content=st.text(), query=st.text())
@example(content="\ud800", query='"\ud800')
def test_no_text_breaks_the_search_and_every_word_of_a_message_finds_it(searched, content, query):
    message = searched.append(searched.create("t").id, "user", content)
    searched.search(query)
    for word in searched.message(message.id).content.replace("\0", " ").split()[:3]:
        assert message.id in {hit.message for hit in searched.search(word, limit=10_000)}, word


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    with ChatStore(tmp_path_factory.mktemp("search") / "chats.sqlite") as opened:
        yield opened
