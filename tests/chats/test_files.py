"""Text files with a message: what a model reads, what an export holds, what a bad import cannot do."""

from __future__ import annotations

import json

from omnidraft.chats import ChatStore, TextFile, export_json, export_markdown, files_meta, import_json, import_markdown
from omnidraft.chats.pictures import files_of, with_files

NOTES = TextFile("notes.txt", "Buy milk.\n")
CODE = TextFile("a.md", "```py\nprint()\n```\n````\nfour\n````")


def test_a_model_reads_each_file_in_a_fence_and_then_the_message():
    assert with_files("What is it?", []) == "What is it?"
    assert with_files("What is it?", [NOTES]) == "notes.txt:\n```\nBuy milk.\n```\n\nWhat is it?"
    text = with_files("And this?", [NOTES, CODE])
    assert text.endswith("a.md:\n`````\n" + CODE.text + "\n`````\n\nAnd this?")


def test_files_stay_with_every_version_and_travel_with_the_conversation(tmp_path):
    with ChatStore(tmp_path / "chats.db") as store:
        chat = store.create()
        asked = store.append(chat.id, "user", "What is it?", meta=files_meta([NOTES]))
        store.append(chat.id, "assistant", "Milk.")
        store.edit(asked.id, "What else?", files_meta([NOTES, CODE]))
        assert store.path(chat.id)[0].files == [NOTES, CODE]
        store.select(asked.id)
        assert [m.files for m in store.path(chat.id)] == [[NOTES], []]
        [copy] = import_json(store, export_json(store, [chat.id]).encode())
        assert store.path(copy.id)[0].prompt == asked.prompt
        # Markdown has no place for files of their own; a model reads the same.
        read = import_markdown(store, export_markdown(store, chat.id).encode())
        assert store.path(read.id)[0].prompt == asked.prompt


def test_what_is_no_file_in_an_import_is_passed_over():
    for meta in ({}, {"files": 3}, {"files": ["x", {"name": 1, "text": "a"}, {"name": "a"}]}, {"files": {"name": "a"}}):
        assert files_of(json.loads(json.dumps(meta))) == []
