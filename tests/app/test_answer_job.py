"""The job that writes an answer: it outlives its page, stops at any moment, and wakes pages at a bounded rate."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.assistant import Assistant
from omnidraft.decoding.request import AnswerRequest
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from ui.chat.turns import MAX_SILENCE, MIN_INTERVAL, follow, silence

QUESTION = [{"role": "user", "content": "Tell me a long story."}]
LONG = SamplingSettings(temperature=1.0, seed=3, max_tokens=900)
PLAIN = DraftSettings(enabled=False)


@pytest.fixture(scope="module")
def assistant(models, tmp_path_factory):
    made = Assistant(find_data_home(tmp_path_factory.mktemp("home")), ephemeral=True)
    made.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ModelSettings(threads=1))
    yield made
    made.close()


def job(assistant, messages=QUESTION, sampling=LONG, **more) -> AnswerJob:
    """One that is being written."""
    made = AnswerJob(assistant, AnswerRequest(messages, sampling, PLAIN), **more)
    threading.Thread(target=made.run, daemon=True).start()
    return made


def wait_for(condition, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_an_answer_ends_by_itself_and_tells_its_keeper_once(assistant):
    kept = []
    done = job(assistant, sampling=SamplingSettings(temperature=0, max_tokens=12), finished=kept.append)
    done.join(30)
    assert done.over
    assert done.error is None
    assert kept == [done]
    assert done.text == "".join(text for text, _ in done.live.pieces)
    assert done.live.statistics.tokens == len(done.live.pieces) or done.live.pieces[-1][1] == "target"


def test_a_stop_in_the_middle_keeps_what_was_written(assistant):
    running = job(assistant)
    wait_for(lambda: running.live.statistics.tokens > 5 or running.over)
    running.stop()
    running.join(10)
    assert running.over
    assert running.live.finish_reason in ("cancelled", "stop")
    assert running.text
    again = job(assistant, sampling=SamplingSettings(temperature=0, max_tokens=5))
    again.join(30)
    assert again.error is None


def test_a_stop_while_the_prompt_is_read_ends_before_the_first_token(assistant):
    prompt = [{"role": "user", "content": " ".join(f"word{i}" for i in range(180))}]
    running = job(assistant, prompt)
    wait_for(lambda: running.live.prefill is not None and running.live.prefill.done < running.live.prefill.total)
    running.stop()
    running.join(10)
    assert running.over
    assert running.live.statistics.tokens <= 1
    assert running.error is None


def test_updates_come_at_most_twenty_times_a_second_and_end_with_the_whole_text(assistant):
    running = job(assistant)
    moments, texts = [], []
    for seen in follow(running):
        moments.append(time.monotonic())
        texts.append(seen.text)
    assert texts[-1] == running.text
    # The last look may follow the one before at once: it is the end.
    gaps = [b - a for a, b in pairwise(moments[:-1])]
    assert all(gap > MIN_INTERVAL * 0.9 for gap in gaps)


def test_a_page_is_left_alone_the_longer_the_more_an_update_took_and_longest_where_nobody_reads_along():
    assert silence(0.001, pace=20) < silence(0.003, pace=20) < MAX_SILENCE
    assert silence(0.1, pace=20) == MAX_SILENCE
    assert MAX_SILENCE < silence(0.1, pace=400) <= 0.5
