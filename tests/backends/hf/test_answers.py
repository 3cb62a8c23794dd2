"""Answers from a folder: prompts reused across turns, stops, interruptions, and a text that no drafter changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from tests.answering import PLAIN, loaded
from tests.backends.hf_folders import write_folder

FIXED = DraftSettings(mode="fixed", length=4)
SAMPLING = SamplingSettings(temperature=0, max_tokens=24, seed=1)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Assistant]:
    folder = write_folder(tmp_path_factory.mktemp("models") / "deep", num_hidden_layers=6, max_position_embeddings=8192)
    settings = ModelSettings(n_ctx=8192, threads=1, n_batch=512, device="cpu")
    with loaded(tmp_path_factory.mktemp("home"), folder, models / "tiny-drafter-f16.gguf", settings) as made:
        made.measure_near_ties()
        yield made


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, models: Path, shared: Path) -> Iterator[Assistant]:
    """One that says words; random weights write bytes that are no text, which no later prompt can repeat."""
    folder, settings = shared / "bundle" / "tiny-target-a", ModelSettings(n_ctx=1024, threads=1, device="cpu")
    with loaded(tmp_path_factory.mktemp("home"), folder, models / "tiny-drafter-f16.gguf", settings) as made:
        made.measure_near_ties()
        yield made


def answer(assistant: Assistant, messages: list[dict], sampling: SamplingSettings, draft: DraftSettings):
    """(ids, text, how it ended)."""
    ids, text = [], ""
    for event in assistant.answer(AnswerRequest(messages, sampling, draft)):
        if isinstance(event, (Token, Finished)):
            text += event.text
        if isinstance(event, Token):
            ids.append(event.id)
    return ids, text, event


def said(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_second_turn_reuses_the_first_and_a_drafter_changes_no_turn(trained: Assistant, temperature: float):
    sampling = replace(SAMPLING, temperature=temperature)
    turns = []
    for draft in (PLAIN, FIXED):
        trained.engine.forget()
        messages, ids = said("hello there"), []
        for _ in range(3):
            new, text, finished = answer(trained, messages, sampling, draft)
            assert bool(finished.statistics.reused_tokens) == bool(ids)
            if ids:
                assert finished.statistics.reused_tokens > finished.statistics.prompt_tokens // 2
            ids.append((new, finished.statistics.near_tie_positions))
            messages = [*messages, {"role": "assistant", "content": text}, *said("and then?")]
        turns.append(ids)
    for (plain, close), (drafted, also) in zip(*turns, strict=True):
        if drafted != plain:  # only where two tokens were all but equally likely; then later turns differ too
            first = next(i for i, (a, b) in enumerate(zip(plain, drafted, strict=False)) if a != b)
            assert first in {*close, *also}
            break


def test_an_answer_stopped_in_the_middle_leaves_the_cache_usable(assistant: Assistant):
    expected, _, _ = answer(assistant, said("what now?"), SAMPLING, FIXED)
    events = assistant.answer(AnswerRequest(said("what now?"), SAMPLING, FIXED))
    seen = []
    for event in events:
        if isinstance(event, Token):
            seen.append(event.id)
            if len(seen) == 5:
                assistant.stop()
    assert event.reason == "cancelled"
    assert seen == expected[: len(seen)]
    assert answer(assistant, said("what now?"), SAMPLING, FIXED)[0] == expected


@pytest.mark.parametrize("draft", [PLAIN, FIXED])
def test_reading_a_long_prompt_can_be_stopped(assistant: Assistant, draft: DraftSettings):
    expected, _, _ = answer(assistant, said("short"), SAMPLING, draft)
    assistant.engine.forget()
    long = said("the quick brown fox " * 900)
    began = threading.Event()
    ended: list = []

    def read() -> None:
        for event in assistant.answer(AnswerRequest(long, SAMPLING, draft)):
            began.set()
            ended[:] = [event]

    reader = threading.Thread(target=read)
    reader.start()
    while reader.is_alive():  # the first stops may come before the engine has begun
        if began.is_set():
            assistant.stop()
        time.sleep(0.01)
    assert isinstance(ended[0], Finished)
    assert ended[0].reason == "cancelled"
    assert len(assistant.target.tokens) < 1000 * 4
    assert answer(assistant, said("short"), SAMPLING, draft)[0] == expected
