"""Another drafter beside the same target: nothing that the target has read is read again."""

from __future__ import annotations

import shutil

import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.errors import ModelError
from omnidraft.storage.paths import find_data_home
from tests.real import QWEN, SMOL, real_model


def asked(session, chat, text):
    job = conversing.ask(session, chat, text)
    job.join(120)
    assert job.error is None
    return job.live.statistics


@pytest.fixture
def make(tmp_path):
    made = []

    def open_session(target):
        session = Session(find_data_home(tmp_path / "home"), "default", str(target), None)
        session.apply(**{"model.threads": 1, "sampling.max_tokens": 12, "sampling.temperature": 0.0})
        made.append(session)
        return session

    yield open_session
    for session in made:
        session.close()


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_next_answer_reads_only_what_is_new(make, models, tmp_path, real):
    drafter = real_model(SMOL) if real else shutil.copy(models / "tiny-drafter-f16.gguf", tmp_path / "other.gguf")
    session = make(real_model(QWEN) if real else models / "tiny-target-a-f16.gguf")
    chat = session.store.create("one").id
    first = asked(session, chat, "What is 23 + 45?")
    model = session.assistant.target
    session.choose_drafter(drafter)
    assert session.assistant.target is model
    assert asked(session, chat, "And 2 + 3?").reused_tokens >= first.prompt_tokens
    assert session.drafter_path() == session.assistant.loaded.asked.drafter == drafter
    cost = next(iter(session.assistant.engine.memory.pair_stats.values())).cost
    assert len(cost.passes) > 1  # the target's passes are still known


def test_a_drafter_that_cannot_be_loaded_changes_nothing(make, models, tmp_path):
    session = make(models / "tiny-target-a-f16.gguf")
    chat = session.store.create("one").id
    first = asked(session, chat, "What is 23 + 45?")
    before, broken = session.drafter_path(), tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with pytest.raises(ModelError):
        session.choose_drafter(broken)
    assert session.drafter_path() == before
    assert asked(session, chat, "And 2 + 3?").reused_tokens >= first.prompt_tokens
