"""Nothing is lost to a kill or to threads, and what is deleted is really gone."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnidraft.chats import ChatStore, schema
from omnidraft.storage import database
from omnidraft.storage.database import open_database

SECRET = "zqxkvbnwarlp"  # in no other text here


def everything_on_disk(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()).lower()


def traces(folder, word=SECRET):
    """Pieces of `word` found in any file: the index shares beginnings between neighbours, so ends count as well."""
    content = everything_on_disk(folder)
    return [piece for piece in (word, word[3:], word[:-3]) if piece.encode() in content]


def talk(store, word, turns=3, filler=""):
    chat = store.create(system=f"system {word}")
    for turn in range(turns):
        question = store.append(chat.id, "user", f"question {turn} {word} {filler}")
        answer = store.append(chat.id, "assistant", "")
        for step in range(3):
            store.save_partial(answer.id, f"step {step} {word}" * (step + 1))
        meta = {"statistics": {"tokens": turn}, "pieces": [word], "finish_reason": "stop"}
        store.save_partial(answer.id, f"answer {turn} {word} {filler}", meta, final=True)
        store.edit(question.id, f"edited {word}")
        store.select(answer.id)
    return chat


@pytest.mark.parametrize("filler", ["", "lorem ipsum " * 20_000], ids=["short", "long"])
def test_a_deleted_conversation_is_in_no_file_any_more(tmp_path, filler):
    with ChatStore(tmp_path / "chats.sqlite") as store:
        kept = talk(store, "walrus")
        gone = talk(store, SECRET, filler=filler)
        later = talk(store, "otter")
        assert traces(tmp_path), "the search would not find what is there"
        before = [store.snapshot(chat.id) for chat in (kept, later)]
        store.delete(gone.id)
        assert store.erased()
        assert traces(tmp_path) == []
        assert [store.snapshot(chat.id) for chat in (kept, later)] == before
        assert {hit.conversation.id for hit in store.search("walrus")} == {kept.id}
        store.create("more")
        assert traces(tmp_path) == []
    assert traces(tmp_path) == []


def test_what_is_deleted_later_leaves_the_file_by_itself_while_others_are_read_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "QUIET_SECONDS", 0.2)
    with ChatStore(tmp_path / "chats.sqlite") as store:
        kept, gone, question = talk(store, "walrus"), talk(store, SECRET), talk(store, SECRET)
        store.search(SECRET[2:5])  # what is held in memory for it is forgotten as well
        store.delete(gone.id, question.id)
        assert not store.search(SECRET[2:5])
        give_up = time.monotonic() + 60
        while traces(tmp_path):
            assert time.monotonic() < give_up
            store.append(kept.id, "user", "otter")
            assert {hit.conversation.id for hit in store.search("otter")} == {kept.id}
        assert {hit.conversation.id for hit in store.search("walrus")} == {kept.id}


def test_what_is_deleted_later_is_gone_once_the_file_is_closed(tmp_path):
    store = ChatStore(tmp_path / "chats.sqlite")
    store.delete(talk(store, SECRET).id)
    store.delete_turn(store.append(talk(store, "walrus").id, "user", SECRET).id)
    assert traces(tmp_path), "it would have been gone already"
    store.close()
    assert traces(tmp_path) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc on Linux only")
def test_deletion_writes_no_copy_of_other_conversations_to_a_temporary_file(store):
    talk(store, "walrus", filler="lorem ipsum " * 50_000)
    opened = set()

    def look():
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                opened.add(os.readlink(f"/proc/self/fd/{number}"))

    store._db.connection.set_progress_handler(look, 100)
    store._eraser.erase()
    store._db.connection.set_progress_handler(None, 0)
    assert any("chats.sqlite" in name for name in opened), "the look would see nothing"
    assert [name for name in opened if "etilqs" in name] == []  # what SQLite calls its temporary files


def test_while_another_program_reads_a_deletion_is_finished_at_the_next_opening(tmp_path, monkeypatch):
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    chat = talk(store, SECRET)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)  # do not wait ten seconds for the reader
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    store.delete(chat.id)
    assert not store.erased()
    assert store.conversations() == []
    reader.execute("COMMIT")
    reader.close()
    store.close()
    with ChatStore(path):
        assert traces(tmp_path) == []


KILLED_IN_DELETION = """
import os, signal, sys
from omnidraft.chats import ChatStore, schema as module
store = ChatStore(sys.argv[1])
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "before the file":
    module.erase_deleted = kill
elif sys.argv[2] == "before the log":
    module.erase_deleted = lambda connection: (connection.execute("VACUUM"), kill())
store.delete(sys.argv[3])
if sys.argv[2] != "before it was cleaned":
    store.erased()
kill()
"""


@pytest.mark.parametrize("point", ["before the file", "before the log", "before it was cleaned"])
def test_a_deletion_that_was_killed_is_finished_at_the_next_opening(tmp_path, point):
    path = tmp_path / "chats.sqlite"
    with ChatStore(path) as store:
        kept, gone = talk(store, "walrus"), talk(store, SECRET)
        before = store.snapshot(kept.id)
    done = subprocess.run([sys.executable, "-c", KILLED_IN_DELETION, str(path), point, gone.id], check=False)
    assert done.returncode == -signal.SIGKILL
    with ChatStore(path) as store:
        assert traces(tmp_path) == []
        assert [c.id for c in store.conversations()] == [kept.id]
        assert store.snapshot(kept.id) == before


def test_the_index_of_an_earlier_version_goes_with_the_words_it_held(tmp_path):
    path = tmp_path / "chats.sqlite"
    earlier = open_database(path, schema.APPLICATION_ID, schema.MIGRATIONS[:-1])
    earlier.execute("CREATE VIRTUAL TABLE message_index USING fts5(content)")
    earlier.execute("INSERT INTO message_index VALUES (?)", (f"deleted {SECRET}",))
    earlier.commit()
    earlier.close()
    assert traces(tmp_path)
    with ChatStore(path) as store:
        assert store.erased()
        assert traces(tmp_path) == []
        assert store._db.all("SELECT name FROM sqlite_master WHERE name LIKE 'message_index%'") == []


def test_threads_share_a_store(tmp_path):
    with ChatStore(tmp_path / "chats.sqlite") as store:
        shared = store.create("shared").id

        def work(number):
            chat = store.create(f"own {number}").id
            for turn in range(10):
                store.append(chat, "user", f"{number} {turn}")
                message = store.append(shared, "user", f"{number} {turn}")
                store.save_partial(message.id, f"{number} {turn} done", final=True)
                store.edit(message.id, "edited")
                store.search("done")
                store.path(shared)
                if turn == 5:
                    store.delete(store.create().id)
            return chat

        with ThreadPoolExecutor(6) as pool:
            own = list(pool.map(work, range(6)))
        for chat in own:
            assert [m.content.split()[1] for m in store.path(chat)] == [str(turn) for turn in range(10)]
        _, messages = store.snapshot(shared)
        assert len(messages) == 120
        assert {m.content for m in messages if m.content != "edited"} == {
            f"{number} {turn} done" for number in range(6) for turn in range(10)
        }


def test_two_processes_share_a_file(tmp_path):
    path = tmp_path / "chats.sqlite"
    script = """
import sys
from omnidraft.chats import ChatStore
with ChatStore(sys.argv[1]) as store:
    chat = store.create(sys.argv[2]).id
    for turn in range(20):
        store.append(chat, "user", f"turn {turn}")
"""
    children = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "abc"]
    assert [child.wait() for child in children] == [0, 0, 0]
    with ChatStore(path) as store:
        assert sorted(c.title for c in store.conversations()) == ["a", "b", "c"]
        for chat in store.conversations():
            assert [m.content for m in store.path(chat.id)] == [f"turn {turn}" for turn in range(20)]
