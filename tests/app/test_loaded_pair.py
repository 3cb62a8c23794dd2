"""Other models in place of those that are loaded: the old one goes first where the memory cannot hold both, and comes
back if the new one fails; what was read is not read again."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from omnidraft.app import conversing, loaded_pair, room
from omnidraft.app.assistant import Assistant
from omnidraft.app.loaded_pair import LoadedPair, LoadRequest
from omnidraft.app.session import Session
from omnidraft.backends import opening
from omnidraft.backends.llama import estimate
from omnidraft.backends.llama.devices import GPU, Device
from omnidraft.decoding.events import Finished
from omnidraft.errors import ModelError, NoRoom
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.answering import ONE, answered
from tests.real import GEMMA, QWEN, SMOL, real_model

SETTINGS = ModelSettings(n_ctx=256, threads=1)


@pytest.fixture
def pair(tmp_path):
    home = find_data_home(tmp_path)
    made = LoadedPair(home.profile("default"), home.cache)
    yield made
    made.close()


def asking(target, drafter=None) -> LoadRequest:
    return LoadRequest(target, drafter, SETTINGS, CacheSettings())


@pytest.fixture
def room_for_one(pair, monkeypatch):
    """Free memory as long as nothing is loaded, hardly any beside a model."""
    monkeypatch.setattr(estimate, "available_bytes", lambda: 1 << 34 if pair.engine is None else 1 << 20)


def test_the_old_model_makes_room(pair, models, room_for_one):
    pair.load(asking(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"))
    first = pair.target
    with pytest.raises(NoRoom):
        estimate.check_memory(first.info, SETTINGS, 256)
    pair.load(asking(models / "tiny-target-b-f16.gguf"))
    assert pair.target_file == models / "tiny-target-b-f16.gguf"
    assert pair.drafter is None


def test_it_leaves_a_card_that_the_new_one_needs_and_comes_back_where_that_cannot_be_loaded(pair, models, monkeypatch):
    before, other = (
        asking(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"),
        "tiny-target-b-f16.gguf",
    )
    pair.load(before)
    loaded = []

    def open_target(path, *given):
        loaded.append(pair.engine is not None)
        if path.name == other:
            raise ModelError("It cannot be loaded.")
        return opening.open_target(path, *given)

    monkeypatch.setattr(loaded_pair, "open_target", open_target)
    monkeypatch.setattr(room, "local_cards", lambda: [Device(0, "a", "a card", GPU, 1000, 1000)])
    with pytest.raises(ModelError, match="It cannot be loaded"):
        pair.load(asking(models / other))
    assert loaded == [False, False]
    assert pair.asked == before
    assert pair.target.extend([1, 2, 3], 1).shape[0] == 1
    assert pair.drafter is not None


def test_leaving_the_drafter_out_frees_it_or_changes_nothing_where_it_is_called_off(pair, models):
    with_it = asking(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf")
    pair.load(with_it)
    drafter = pair.drafter
    called_off = Progress(with_it.target)
    called_off.call_off()
    with watched(called_off), pytest.raises(CalledOff):
        pair.load(asking(with_it.target))
    assert (pair.drafter, pair.asked) == (drafter, with_it)
    assert drafter.extend([1, 2, 3], 1).shape[0] == 1
    pair.load(asking(with_it.target))
    assert pair.drafter is None
    with pytest.raises(ModelError, match="closed"):
        drafter.extend([1, 2, 3], 1)


# From one target to another and back: what the first had read is not read again, and its next answer is the same.


SAMPLING = SamplingSettings(temperature=0.0, max_tokens=12)
ASKED = "Write a polite e-mail to my landlord about a broken heater, and one to the neighbours about the noise."


@pytest.fixture
def assistant(tmp_path):
    made = Assistant(find_data_home(tmp_path), ephemeral=True)
    yield made
    made.close()


def asked_twice(assistant: Assistant, between) -> tuple[list[int], Finished, Finished]:
    """(the second answer's ids, how the first ended, how the second did), with something between the two."""
    first, end = answered(assistant, ASKED, SAMPLING, DraftSettings())
    said = assistant.target.vocabulary.decode(first).decode(errors="replace")
    between()
    messages = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": said}]
    return *answered(
        assistant, [*messages, {"role": "user", "content": "Shorter, please."}], SAMPLING, DraftSettings()
    ), end


def load(assistant: Assistant, target: Path, drafter: Path | None = None, settings: ModelSettings = ONE) -> None:
    assistant.load(target, drafter, settings, CacheSettings())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SMOL, QWEN),
        (QWEN, SMOL),
        (GEMMA, SMOL),
    ],
)
def test_a_target_that_comes_back_has_read_what_it_had_read(assistant, models, one, other):
    one, other, drafter = real_model(one), real_model(other), models / "smol-drafter-q5_0.gguf"
    load(assistant, one, drafter)
    stayed, _, _ = asked_twice(assistant, lambda: None)
    assistant.engine.forget()

    def there_and_back():
        load(assistant, other, drafter)
        answered(assistant, "Hello.", SAMPLING, DraftSettings())
        load(assistant, one, drafter)

    returned, second, first = asked_twice(assistant, there_and_back)
    assert second.statistics.reused_tokens >= first.statistics.prompt_tokens
    assert returned == stayed


@pytest.mark.parametrize("change", ["nothing", "another file", "another way", "forgotten"])
def test_nothing_is_put_back_that_may_be_wrong(assistant, models, tmp_path, change):
    target, settings = tmp_path / "target.gguf", ONE
    target.write_bytes((models / "tiny-target-a-f16.gguf").read_bytes())
    load(assistant, target)

    def there_and_back():
        load(assistant, models / "tiny-target-b-f16.gguf")
        if change == "another file":
            os.utime(target, (1, 1))
        if change == "forgotten":
            assistant.loaded.let_go()
            assistant.loaded.go_on(None)
        load(assistant, target, None, ModelSettings(threads=1, n_ctx=512) if change == "another way" else settings)

    _, second, first = asked_twice(assistant, there_and_back)
    if change == "nothing":
        assert second.statistics.reused_tokens >= first.statistics.prompt_tokens
    else:
        assert second.statistics.reused_tokens == 0


# Another drafter beside the same target: nothing that the target has read is read again.


def asked(session, chat, text):
    job = conversing.ask(session, chat, text)
    job.join(120)
    assert job.error is None
    return job.live.statistics


def test_another_drafter_drafts_for_a_target_whose_file_is_gone(models, tmp_path):
    target = Path(shutil.copy(models / "tiny-target-a-f16.gguf", tmp_path / "target.gguf"))
    with closing(Session(find_data_home(tmp_path / "home"), "default", str(target), None)) as session:
        session.apply(**{"model.threads": 1, "sampling.max_tokens": 12, "sampling.temperature": 0.0})
        chat = session.store.create("one").id
        first = asked(session, chat, "What is 23 + 45?")
        model = session.assistant.target
        target.unlink()
        other = Path(shutil.copy(models / "tiny-drafter-f16.gguf", tmp_path / "other.gguf"))
        session.choose_drafter(other)
        assert (session.settings.drafter, session.assistant.loaded.asked.drafter) == (str(other), other)
        session.apply(**{"draft.mode": "fixed"})
        second = asked(session, chat, "And 2 + 3?")
        assert session.assistant.target is model
        assert second.reused_tokens >= first.prompt_tokens
        assert second.proposed
        assert len(session.assistant.engine.memory.pace.passes.figures) > 1, "the target's passes are still known"
