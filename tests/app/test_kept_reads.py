"""From one target to another and back: what the first had read is not read again, and its next answer is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished
from omnidraft.errors import ModelError
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.answering import ONE, answered
from tests.real import GEMMA, QWEN, SMOL, real_model

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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SMOL, QWEN),
        pytest.param(QWEN, SMOL, marks=pytest.mark.slow),
        pytest.param(GEMMA, SMOL, marks=pytest.mark.slow),
    ],
)
def test_a_target_that_comes_back_has_read_what_it_had_read(assistant, models, one, other):
    one, drafter = real_model(one), models / "smol-drafter-q8_0.gguf"
    load(assistant, one, drafter)
    stayed, _, _ = asked_twice(assistant, lambda: None)
    assistant.engine.forget()

    def there_and_back():
        load(assistant, real_model(other), drafter)
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


def test_a_file_that_is_missing_is_told_in_a_sentence(assistant, models, tmp_path):
    for _ in range(2):  # with nothing loaded, and in the place of what is
        with pytest.raises(ModelError, match="missing"):
            load(assistant, tmp_path / "missing.gguf")
        load(assistant, models / "tiny-target-a-f16.gguf")
