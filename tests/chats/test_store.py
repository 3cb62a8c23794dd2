"""Conversations: made, listed, changed, and answers saved as they grow."""

import json

import numpy as np
import pytest

from omnidraft.errors import StorageError


def test_the_most_recently_used_comes_first(store):
    first, second, third = (store.create(name) for name in "abc")
    assert [c.title for c in store.conversations()] == ["c", "b", "a"]
    store.append(first.id, "user", "hello")
    assert [c.title for c in store.conversations()] == ["a", "c", "b"]
    assert [c.title for c in store.conversations(limit=2)][1] == "c"
    assert second in store.conversations()
    assert third in store.conversations()


def test_the_first_message_names_a_conversation_until_the_user_does(store):
    chat = store.create()
    assert store.get(chat.id).title == "New chat"
    first = store.append(chat.id, "user", "# How do tides work?\nPlease be brief.")
    assert store.get(chat.id).title == "How do tides work?"
    store.append(chat.id, "assistant", "The moon.")
    store.append(chat.id, "user", "And the sun?")
    assert store.get(chat.id).title == "How do tides work?"
    store.edit(first.id, "How do springs work?")
    assert store.get(chat.id).title == "How do springs work?"
    store.rename(chat.id, "  Water\n& moon ")
    assert store.get(chat.id).title == "Water & moon"
    store.edit(first.id, "Something else")
    assert store.get(chat.id).title == "Water & moon"
    assert store.rename(chat.id, " ").title == "Something else"


def test_an_answer_keeps_its_statistics_tokens_and_origins(store):
    chat = store.create()
    store.append(chat.id, "user", "Hi")
    meta = {
        "statistics": {"tokens": np.int64(3), "draft": np.float32(0.5), "rate": float("nan"), "origins": {"target": 1}},
        "token_ids": np.array([5, 6, 7], dtype=np.int32),
        "origins": ["target", "direct", "ngram"],
        "target": "tiny-target-a",
        "seed": 2**62,
        "finish_reason": "stop",
        "note": "switched",
    }
    stored = store.message(store.append(chat.id, "assistant", "Hello.", meta=meta).id)
    assert stored.statistics == {"tokens": 3, "draft": 0.5, "origins": {"target": 1}}  # NaN is no number
    assert stored.token_ids == [5, 6, 7]
    assert stored.origins == ["target", "direct", "ngram"]
    assert (stored.meta["seed"], stored.meta["finish_reason"], stored.meta["note"]) == (2**62, "stop", "switched")
    assert not stored.partial
    json.dumps(stored.meta, allow_nan=False)
    with pytest.raises(TypeError, match="cannot be stored"):
        store.append(chat.id, "assistant", "", meta={"statistics": {"bad": object()}})


def test_a_growing_answer_is_partial_until_its_end(store):
    chat = store.create()
    store.append(chat.id, "user", "Count.")
    answer = store.append(chat.id, "assistant", "", meta={"target": "a"})
    store.save_partial(answer.id, "n")
    now = store.message(answer.id)
    assert now.partial
    assert now.meta["target"] == "a"
    store.save_partial(answer.id, "done", {"finish_reason": "stop"}, final=True)
    assert store.message(answer.id).content == "done"
    assert store.message(answer.id).meta == {"finish_reason": "stop"}
    store.save_partial(answer.id, "continued")
    assert store.message(answer.id).partial


def test_what_is_gone_is_one_sentence(store):
    chat = store.create()
    message = store.append(chat.id, "user", "x")
    store.delete(chat.id)
    for action in (
        lambda: store.get(chat.id), lambda: store.append(chat.id, "user", "x"), lambda: store.rename(chat.id, "x"),
        lambda: store.update(chat.id, system="x"), lambda: store.snapshot(chat.id), lambda: store.message(message.id),
        lambda: store.select(message.id), lambda: store.edit(message.id, "y"), lambda: store.siblings(message.id),
    ):  # fmt: skip
        with pytest.raises(StorageError, match="no longer exists"):
            action()
    store.delete(chat.id, "never-there")


def test_half_an_emoji_does_not_lose_the_message(store):
    chat = store.create(system="\ud83d")
    message = store.append(chat.id, "user", "a\ud83d b\0c", meta={"\udc00": "\udfff"})
    assert store.message(message.id).content == "a\ufffd b\0c"
    assert store.get(chat.id).system == "\ufffd"
    assert store.search("\ud83d") == store.search("\ufffd")
