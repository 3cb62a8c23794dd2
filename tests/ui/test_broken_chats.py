"""Conversations from a file, whatever their answers' meta data say: every part of the page can be made of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.app.answer_job import Live
from omnidraft.chats import ChatStore, export_json, import_json
from omnidraft.decoding.events import Statistics
from ui.chat.panel import panel, summary
from ui.chat.parts import acceptance_of, gauge, pieces_of, stored_live
from ui.chat.turns import origins, turns

SESSION = SimpleNamespace(assistant=SimpleNamespace(target=SimpleNamespace(n_ctx=1024)))
COUNTERS = list(Statistics.__dataclass_fields__)
NAMES = ["statistics", "token_ids", "origins", "pieces", "notices", "target", "seed", "finish_reason", "error", "note",
         "plain", "disabled", "partial", "files"]  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
STATISTICS = st.dictionaries(st.sampled_from([*COUNTERS, "more"]), ANYTHING, max_size=6)
METAS = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=6) | st.builds(
    lambda statistics, pieces: {"statistics": statistics, "pieces": pieces, "origins": ["x"] * 3},
    STATISTICS,
    st.lists(st.text(max_size=3), max_size=3),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with ChatStore(tmp_path_factory.mktemp("broken") / "chats.sqlite") as opened:
        yield opened


@settings(max_examples=150, deadline=None)
@given(meta=METAS, empty=st.booleans())
def test_every_part_of_the_page_can_be_made(store, meta, empty):
    chat = store.create()
    question = store.append(chat.id, "user", "Hi")
    store.append(chat.id, "assistant", "" if empty else "Hello.", parent=question.id)
    whole = json.loads(export_json(store, [chat.id]))
    whole["conversations"][0]["messages"][1]["meta"] = meta
    (new,) = import_json(store, json.dumps(whole))
    path = store.path(new.id)
    assert turns(path, store.versions(new.id)).marks_html()
    assert origins(pieces_of(path))
    live = stored_live(path)
    assert panel(live, None, past=acceptance_of(path))
    summary(live)
    gauge(SESSION, path)
    Live().add_earlier(path[-1].statistics)
    store.delete(chat.id, new.id)
