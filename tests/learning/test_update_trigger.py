"""What learning does next, and whether the served version still fares as well as the one before."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

from omnidraft.learning import update_trigger
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta
from omnidraft.learning.facts import ServedAnswer, Update
from omnidraft.learning.material.history import History
from omnidraft.learning.training_job import Refused
from omnidraft.learning.training_process import TrainingRuns
from omnidraft.learning.update_trigger import LIVE_ANSWERS, UpdateTrigger, has_fallen
from omnidraft.settings.config import LearningSettings


def test_a_served_version_that_accepts_less_is_looked_at_once(tmp_path):
    store = AdapterStore(tmp_path / "adapters" / "d" / "v")
    versions = [store.publish({ADAPTER: b"a", WEIGHTS: b"w"}, Meta("d", "v", parent=p)) for p in (None, "v000001")]
    adapters, history = Adapters(tmp_path / "adapters", tmp_path / "merged"), History(tmp_path / "metrics.sqlite")
    choice = Choice(tmp_path / "drafter.gguf", "own", store, versions[1], versions[1].adapter)

    def served(version: str, accepted: int, count: int) -> None:
        for i in range(count):
            history.add_served("d/v", ServedAnswer(0.0, version, "t", 50, 30, 40, 20, accepted + i % 2, 1.0))

    looked: set[tuple] = set()
    served("v000001", 12, 60)
    served("v000002", 9, LIVE_ANSWERS - 1)
    assert not has_fallen(choice, adapters, history, looked)  # too early to say
    served("v000002", 9, 1)
    assert has_fallen(choice, adapters, history, looked)
    assert not has_fallen(choice, adapters, history, looked)  # not again for the same answers
    served("v000002", 14, LIVE_ANSWERS)
    assert not has_fallen(choice, adapters, history, looked)  # now it does better
    history.close()


def test_what_one_pairs_answers_call_for_is_not_done_for_the_next_pair(monkeypatch, tmp_path):
    due = UpdateTrigger(SimpleNamespace(refused="", enough=0))
    choice = Choice(tmp_path / "drafter.gguf", "own", AdapterStore(tmp_path))
    pairing = SimpleNamespace(choice=choice)
    monkeypatch.setattr("omnidraft.learning.update_trigger.has_fallen", lambda *_: True)
    due._keeping.history = None
    due.look_at(pairing, None)
    assert due.kind(pairing, LearningSettings()) == "compare"
    assert due.kind(SimpleNamespace(choice=replace(choice, origin="warm start")), LearningSettings()) is None
    due.paired()
    assert due.kind(pairing, LearningSettings()) is None


def test_an_hour_has_room_for_so_many_minutes_and_for_one_update_at_least(tmp_path, monkeypatch):
    history = History(tmp_path / "metrics.sqlite")
    due = UpdateTrigger(SimpleNamespace(refused="", enough=8, history=history))
    monkeypatch.setattr(update_trigger, "MINUTES_PER_HOUR", 2.0)

    def trained(number: int, ago: float, cpu_seconds: float) -> None:
        ended = time.time() - ago
        history.save("d/v", Update(number, ended - 1, "d", "t", "v", "refused", ended=ended, cpu_seconds=cpu_seconds))

    assert due.why_wait() == ""
    trained(1, 4000, 500)  # an hour ago
    assert due.why_wait() == ""
    trained(2, 60, 50)
    assert due.why_wait() == ""  # another one like it fits
    trained(3, 30, 50)
    assert "1.7 of 2" in due.why_wait()
    due.forced = True
    assert due.why_wait() == ""
    assert history.spent(86_400) == 600
    history.close()


def test_who_waits_for_the_hours_room_asks_the_file_once_until_an_update_is_written(tmp_path, monkeypatch):
    history, other = (History(tmp_path / "metrics.sqlite") for _ in range(2))
    due = UpdateTrigger(SimpleNamespace(refused="", enough=8, history=history))
    asked: list[str] = []
    ask = history._db.all
    monkeypatch.setattr(history._db, "all", lambda sql, *values: asked.append(sql) or ask(sql, *values))

    def trained(by: History, number: int) -> None:
        ended = time.time() - 30
        by.save("d/v", Update(number, ended - 1, "d", "t", "v", "refused", ended=ended, cpu_seconds=400))

    for by, number, told in ((history, 1, "6.7 of 10"), (history, 2, "13.3 of 10"), (other, 3, "20.0 of 10")):
        trained(by, number)
        asked.clear()
        for _ in range(20):
            assert told in due.why_wait()
        assert sum("json_extract" in sql for sql in asked) == 1
        assert not any("SELECT facts" in sql for sql in asked)
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 4000)
    assert due.why_wait() == "", "an hour passes without being asked for"
    history.close()
    other.close()


def test_what_a_refused_update_has_seen_is_not_tried_again_at_once(tmp_path):
    store = AdapterStore(tmp_path)
    TrainingRuns(None, None).follow(SimpleNamespace(update=None, store=store), Refused(16, "no"))
    assert store.through == 16


def test_what_is_there_for_the_next_update_is_told_with_what_is_not_counted():
    due = UpdateTrigger(SimpleNamespace(refused="", enough=0, fresh=1))
    assert due.idle_reason(8) == (
        "The next update begins with 8 answers of models with this vocabulary that none has read yet; 1 is there."
    )
