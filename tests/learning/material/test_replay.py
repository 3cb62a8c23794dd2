"""The replay store: bounded, oldest out first, readable while written, forgetful on request."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest
from sqlitedict import SqliteDict

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import encode
from omnidraft.learning.material.replay import HELD_OUT_EVERY, ReplayStore
from tests.learning.learning_helpers import random_record


def filled(path, count, limit_mb=10.0, chats=("c1",)):
    store = ReplayStore(path, limit_mb)
    rng = np.random.default_rng(0)
    for i in range(count):
        store.add(random_record(rng, 20, chat=chats[i % len(chats)]))
    return store


def test_what_was_added_is_there_after_reopening(tmp_path):
    with filled(tmp_path / "replay.sqlite", 5) as store:
        before = {o: encode(r) for o, r in store}
    with ReplayStore(tmp_path / "replay.sqlite") as store:
        assert {o: encode(r) for o, r in store} == before
        assert store.tokens == 100


def test_the_oldest_answers_leave_when_the_store_is_full(tmp_path):
    size = len(encode(random_record(np.random.default_rng(0), 20)))
    with filled(tmp_path / "replay.sqlite", 12, limit_mb=5.5 * size / 1e6) as store:
        assert list(store.answers) == [8, 9, 10, 11, 12]
        assert store.add(random_record(np.random.default_rng(1), 20)) == 13  # ordinals are never reused


def test_one_answer_in_eight_is_held_out_per_vocabulary(tmp_path):
    with ReplayStore(tmp_path / "replay.sqlite") as store:
        rng = np.random.default_rng(0)
        for i in range(48):
            store.add(random_record(rng, 3, vocabulary="ab"[i % 2]))
        for vocabulary in "ab":
            of_it = [a for a in store.answers.values() if a.vocabulary == vocabulary]
            assert sum(a.held_out for a in of_it) == len(of_it) // HELD_OUT_EVERY


def test_an_index_that_says_more_than_this_program_asks_is_read(tmp_path):
    with filled(tmp_path / "replay.sqlite", 2) as store:
        answers = dict(store.answers)
    with closing(sqlite3.connect(tmp_path / "replay.sqlite")) as database:
        database.execute("UPDATE answers SET value = json_set(value, '$.quarantined', json('false'))")
        database.commit()
    with ReplayStore(tmp_path / "replay.sqlite") as store:
        assert store.answers == answers


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
        ReplayStore(tmp_path / "replay.sqlite", read_only=True) as reader,
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
    blobs = {o: encode(r) for o, r in store}
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


WRITER = """
import sys, numpy as np
from tests.learning.learning_helpers import random_record
from omnidraft.learning.material.replay import ReplayStore
store = ReplayStore(sys.argv[1], 0.02); rng = np.random.default_rng(0)
print("ready", flush=True)
while True:
    print(store.add(random_record(rng, 20)), flush=True)
"""


def killed_writer(path, delay):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    lines = child.stdout.read().split()
    child.wait()
    return int(lines[-1]) if lines else 0


@pytest.mark.parametrize("runs", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path, runs):
    rng = np.random.default_rng(1)
    last = 0
    for _ in range(runs):
        last = max(killed_writer(tmp_path / "replay.sqlite", rng.uniform(0, 0.15)), last)
        with ReplayStore(tmp_path / "replay.sqlite", 0.02) as store:
            assert last == 0 or last in store.answers
            assert set(store.answers) == {o for o, _ in store}  # index and blobs agree, every blob reads


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


def test_answers_are_told_apart_by_the_drafter_that_spelled_them(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "replay.sqlite"
    with ReplayStore(path) as store:
        mine, other, unknown = (store.add(random_record(rng, 8, drafter=name)) for name in ("mine", "other", ""))
        assert set(store.spelled_by("mine")) == {mine, unknown}
    with ReplayStore(path, read_only=True) as store:
        assert set(store.spelled_by("other")) == {other, unknown}


def test_what_an_earlier_program_wrote_is_read_but_for_halves_of_answers(tmp_path):
    path = tmp_path / "replay.sqlite"
    with filled(path, 3) as store:
        before = {o: encode(r) for o, r in store}
    with closing(sqlite3.connect(path)) as database:  # sqlitedict's tables, without a note of who made them
        database.executescript("DROP TABLE migrations; DROP TABLE next; DELETE FROM records WHERE key LIKE '%2'")
        database.execute("INSERT INTO records VALUES ('000000000009', x'00')")
        database.commit()
    with ReplayStore(path) as store:
        assert {o: encode(r) for o, r in store} == {o: before[o] for o in (1, 3)}
        assert store.add(random_record(np.random.default_rng(1), 20)) == 4
