"""What goes with conversations and messages: text files, thoughts, meta data, and what of them that comes from
elsewhere reads as absent."""

from __future__ import annotations

import json
import time

import pytest

from omnidraft.chats import TextFile, export_json, export_markdown, files_meta, import_json
from omnidraft.chats.pictures import files_of, with_files
from omnidraft.chats.records import sound
from omnidraft.chats.search import in_tags, said
from omnidraft.prompting.formats.chat_format import THOUGHT_MARKS
from tests.exports import elsewhere

CHANNEL = ("<|channel>thought", "<channel|>", "")
PROMPTED = ("", "[BEGIN FINAL RESPONSE]", "")
BEGIN, END, BARE = THOUGHT_MARKS


@pytest.mark.parametrize(
    ("marks", "text", "shown", "thoughts", "read"),
    [
        (CHANNEL, "<|channel>thought\nHm.<channel|>Hello.", "<think>\nHm.</think>\n\nHello.", "Hm.", "Hello."),
        (CHANNEL, "<|channel>thought\nHm", "<think>\nHm", "Hm", ""),
        (CHANNEL, "Hello.", "Hello.", None, "Hello."),
        (CHANNEL, "Write <|channel>thought yourself.", "Write <|channel>thought yourself.", None, None),
        (PROMPTED, "Hm. [BEGIN FINAL RESPONSE] Hello.", "<think>Hm. </think>\n\nHello.", "Hm.", "Hello."),
        (PROMPTED, "Hm.", "<think>Hm.", "Hm.", ""),
        (THOUGHT_MARKS, f"{BEGIN}Hm.{END}Hello.", "<think>Hm.</think>\n\nHello.", "Hm.", "Hello."),
        (THOUGHT_MARKS, f"{BARE}Hello.", "Hello.", None, "Hello."),
        (THOUGHT_MARKS, "", "", None, ""),
    ],
)
def test_thoughts_are_shown_as_most_models_spell_them_and_go_back_apart(marks, text, shown, thoughts, read):
    assert in_tags(text, marks) == shown
    message = said(text, marks)
    assert message["content"] == (text if read is None else read)
    assert message.get("reasoning_content") == thoughts


def test_what_most_models_spell_needs_no_marks():
    assert said("<think>\nHm.\n</think>\n\nHello.") == {
        "role": "assistant", "content": "Hello.", "reasoning_content": "Hm."
    }  # fmt: skip


NOTES = TextFile("notes.txt", "Buy milk.\n")
CODE = TextFile("a.md", "```py\nprint()\n```\n````\nfour\n````")


def test_a_model_reads_each_file_in_a_fence_and_then_the_message():
    assert with_files("What is it?", []) == "What is it?"
    assert with_files("What is it?", [NOTES]) == "notes.txt:\n```\nBuy milk.\n```\n\nWhat is it?"
    text = with_files("And this?", [NOTES, CODE])
    assert text.endswith("a.md:\n`````\n" + CODE.text + "\n`````\n\nAnd this?")


def test_files_stay_with_every_version_and_travel_with_the_conversation(store):
    chat = store.create()
    asked = store.append(chat.id, "user", "What is it?", meta=files_meta([NOTES]))
    store.append(chat.id, "assistant", "Milk.")
    store.edit(asked.id, "What else?", files_meta([NOTES, CODE]))
    assert store.path(chat.id)[0].files == [NOTES, CODE]
    store.select(asked.id)
    assert [m.files for m in store.path(chat.id)] == [[NOTES], []]
    ((copy,), _) = import_json(store, elsewhere(export_json(store, [chat.id])).encode())
    assert store.path(copy.id)[0].prompt == asked.prompt
    assert asked.prompt in export_markdown(store, chat.id)


def test_what_is_no_file_in_an_import_is_passed_over():
    for meta in ({}, {"files": 3}, {"files": ["x", {"name": 1, "text": "a"}, {"name": "a"}]}, {"files": {"name": "a"}}):
        assert files_of(json.loads(json.dumps(meta))) == []


WRONG = {
    "statistics": [], "token_ids": [-1], "origins": "target", "pieces": [["a"]], "notices": [1], "target": 5,
    "seed": -1, "finish_reason": 3, "error": {}, "note": ["<b>"], "disabled": 1, "plain": 10**400, "partial": "no",
}  # fmt: skip
GOOD = {
    "statistics": {"tokens": 3, "draft": 0.5, "origins": {"target": 1}}, "token_ids": [5, 6], "target": "tiny",
    "origins": ["target", "somewhere"], "seed": 2**62, "finish_reason": "stop", "pieces": ["a", "b"], "notices": ["n"],
    "error": "e", "note": "m", "plain": 2.5, "disabled": "d", "partial": True,
}  # fmt: skip


def imported(store, meta: object, **dates: float):
    """The one answer of a conversation that came from a file."""
    chat = store.create()
    question = store.append(chat.id, "user", "Hi")
    store.append(chat.id, "assistant", "Hello.", parent=question.id)
    whole = json.loads(export_json(store, [chat.id]))
    whole["conversations"][0]["messages"][1]["meta"] = meta
    whole["conversations"][0].update(dates)
    ((new,), _) = import_json(store, elsewhere(json.dumps(whole)))
    return store.path(new.id)[-1]


@pytest.mark.parametrize(("name", "value"), WRONG.items())
def test_a_wrong_value_is_left_out_of_an_import_and_of_what_is_stored_already(store, name, value):
    meta = {**GOOD, name: value, "elsewhere": [1, {"a": None}]}
    rest = {key: kept for key, kept in meta.items() if key != name}
    assert imported(store, meta).meta == rest
    stored = store.append(store.create().id, "assistant", "x", meta=meta)
    assert store.message(stored.id).meta == rest


def test_what_is_right_stays_as_it_is(store):
    assert imported(store, GOOD).meta == GOOD
    assert sound(GOOD) == GOOD
    assert sound({}) == {}


def test_one_wrong_counter_costs_that_counter_alone():
    given = {"tokens": 3, "accepted": "4", "draft": -0.1, "verify": 1e300, "origins": {"target": "1"}, "tested": True}
    assert sound({"statistics": given}) == {"statistics": {"tokens": 3}}


def test_an_import_from_the_future_does_not_stay_on_top(store):
    late = imported(store, {}, updated=time.time() + 10**8, created=time.time() + 10**8).chat
    assert store.get(late).updated <= time.time()
    newer = store.create("newer")
    assert store.conversations(1)[0].id == newer.id
