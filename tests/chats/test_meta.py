"""Meta data from elsewhere: what nobody could use reads as absent, and wrong dates keep no conversation on top."""

from __future__ import annotations

import json
import time

import pytest

from omnidraft.chats import export_json, import_json
from omnidraft.chats.records import sound

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
    (new,) = import_json(store, json.dumps(whole))
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
