"""The replay store: bounded, oldest out first, forgetful on request; which answers an update learns from."""

import os
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from sqlitedict import SqliteDict

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import encode
from omnidraft.learning.material.replay import Answer, ReplayStore, select_answers
from tests.learning.learning_helpers import random_record


def filled(path, count, limit_mb=10.0, chats=("c1",)):
    store = ReplayStore(path, limit_mb)
    rng = np.random.default_rng(0)
    for i in range(count):
        store.add(random_record(rng, 20, chat=chats[i % len(chats)]))
    return store


def test_the_oldest_answers_leave_when_the_store_is_full(tmp_path):
    size = len(encode(random_record(np.random.default_rng(0), 20)))
    with filled(tmp_path / "replay.sqlite", 12, limit_mb=5.5 * size / 1e6) as store:
        assert list(store.answers) == [8, 9, 10, 11, 12]
        assert store.add(random_record(np.random.default_rng(1), 20)) == 13  # ordinals are never reused


def test_one_answer_in_eight_is_held_out_per_vocabulary_and_of_the_first_one_in_four(tmp_path):
    with ReplayStore(tmp_path / "replay.sqlite") as store:
        rng = np.random.default_rng(0)
        for i in range(48):
            store.add(random_record(rng, 3, vocabulary="ab"[i % 2]))
        for vocabulary in "ab":
            of_it = [a for a in store.answers.values() if a.vocabulary == vocabulary]
            assert [sum(a.held_out for a in of_it[:n]) for n in (3, 4, 8, 16, 24)] == [0, 1, 2, 4, 5]


def test_a_pickle_database_is_refused_and_never_loaded(tmp_path):
    path = tmp_path / "replay.sqlite"
    marker = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (os.system, (f"touch {marker}",))

    with SqliteDict(str(path), tablename="records", autocommit=True) as table:
        table["000000000001"] = Bomb()
    with pytest.raises(StorageError, match="did not write"):
        ReplayStore(path)
    connection = sqlite3.connect(path)  # the same with our mark forged: the value itself is refused
    connection.execute("PRAGMA application_id=1329877553")
    connection.execute("CREATE TABLE answers (key TEXT PRIMARY KEY, value BLOB)")
    connection.execute("INSERT INTO answers VALUES ('000000000001', (SELECT value FROM records))")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError):
        ReplayStore(path)
    assert not marker.exists()


def test_a_reader_sees_new_answers_and_blocks_no_writer(tmp_path):
    with (
        filled(tmp_path / "replay.sqlite", 3) as store,
        ReplayStore(tmp_path / "replay.sqlite") as reader,
    ):
        assert len(reader.get(2).targets) == 20
        began = time.perf_counter()
        ordinal = store.add(random_record(np.random.default_rng(5), 20))
        assert time.perf_counter() - began < 1
        assert len(reader.get(ordinal).targets) == 20


def bytes_on_disk(folder):
    return b"".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def test_a_forgotten_conversation_is_gone_from_the_files(tmp_path):
    store = filled(tmp_path / "replay.sqlite", 30, chats=("keep-me-3141", "forget-me-2718"))
    blobs = {o: encode(store.get(o)) for o in store.answers}
    chats = {o: a.chat for o, a in store.answers.items()}
    raw = bytes_on_disk(tmp_path)
    probe = {o: b[len(b) // 2 :][:64] for o, b in blobs.items()}  # 64 bytes from the middle of each stored blob
    assert all(p in raw for p in probe.values())
    assert b"forget-me-2718" in raw
    assert store.forget("forget-me-2718") == 15
    raw = bytes_on_disk(tmp_path)
    assert b"forget-me-2718" not in raw
    for ordinal, p in probe.items():
        assert (p in raw) == (chats[ordinal] == "keep-me-3141")
    assert len(store) == 15
    assert store.forget(None) == 15
    raw = bytes_on_disk(tmp_path)
    assert b"keep-me" not in raw
    assert not any(p in raw for p in probe.values())
    store.add(random_record(np.random.default_rng(0), 3))  # usable afterwards
    store.close()


def test_numbers_of_forgotten_answers_are_not_given_again(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "replay.sqlite"
    with ReplayStore(path) as store:
        given = [store.add(random_record(rng, 8, chat=f"c{number}")) for number in range(3)]
        store.forget("c2")
        given.append(store.add(random_record(rng, 8, chat="c3")))
        store.forget(None)
    with ReplayStore(path) as store:
        given.append(store.add(random_record(rng, 8)))
        store.forget("c1")
        given.append(store.add(random_record(rng, 8)))
    assert given == sorted(set(given))


def test_what_an_earlier_program_wrote_is_read_but_for_halves_of_answers(tmp_path):
    path = tmp_path / "replay.sqlite"
    with filled(path, 3) as store:
        before = {o: encode(store.get(o)) for o in store.answers}
    with closing(sqlite3.connect(path)) as database:  # sqlitedict's tables, without a note of who made them
        database.executescript("DROP TABLE migrations; DROP TABLE next; DELETE FROM records WHERE key LIKE '%2'")
        database.execute("INSERT INTO records VALUES ('000000000009', x'00')")
        database.commit()
    with ReplayStore(path) as store:
        assert {o: encode(store.get(o)) for o in store.answers} == {o: before[o] for o in (1, 3)}
        assert store.add(random_record(np.random.default_rng(1), 20)) == 4


def test_what_is_judged_as_new_was_not_seen_by_the_update_before():
    answers = {o: Answer("c", "t", "v", 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = select_answers(answers, 24, 0, 64)
    assert min(plan.judged_new) > 24
    assert set(plan.judged_new) | set(plan.judged_old) == {o for o, a in answers.items() if a.held_out}


def test_the_oldest_new_answers_come_first_and_the_rest_wait():
    answers = {o: Answer("c", "t", "v", 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = select_answers(answers, 0, 0, 10)
    kept = [o for o, a in answers.items() if not a.held_out]
    assert plan.new == tuple(kept[:10])
    assert plan.through == kept[10] - 1
    assert select_answers(answers, 0, 0, 512).new == tuple(kept)
    assert select_answers(answers, kept[3], 0, 512).new == tuple(kept[4:])
