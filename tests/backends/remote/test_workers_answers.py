"""Answers over workers: the same text as in one process, and none lost when a worker is killed or stands still.

A worker may be lost at any moment: while the model loads, while the prompt is read, between two tokens. Whatever comes
of it, the app answers the next message once the worker is back, and what was written is in the store.
"""

import contextlib
import random
import threading
import time

import psutil
import pytest

from omnidraft.app import conversing
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.session import Session
from omnidraft.decoding.events import Token
from omnidraft.errors import OmniDraftError
from omnidraft.storage.paths import find_data_home
from tests.lent import Worker, named, needs_rpc, workers

pytestmark = [needs_rpc, pytest.mark.timeout(900)]  # targets load again and again, also on a busy machine


@pytest.fixture(scope="module")
def running():
    with workers(2) as made:
        yield made


@pytest.fixture
def session(running, models, tmp_path):
    made = Session(
        find_data_home(tmp_path), "default", str(models / "tiny-target-a-f16.gguf"), None, named(running), "1,1,1"
    )
    made.apply(**{"model.threads": 1, "model.n_ctx": 1024, "sampling.max_tokens": 60, "learning.enabled": False})
    yield made
    made.close()


def ask(session: Session, chat: str, text: str) -> str | None:
    """Ask and wait; the sentence if it failed."""
    try:
        job = conversing.ask(session, chat, text)
    except OmniDraftError as error:
        return str(error)
    job.join(120)
    assert job.over
    return job.error


def killed_at_random(session: Session, running: list[Worker], rounds: int, seed: int) -> list[str]:
    """Kill a worker at a random moment of each answer, and have the next one answered. Sentences that were shown."""
    draw = random.Random(seed)
    said = []
    for number in range(rounds):
        loading = number % 3 == 0
        if loading:
            session.unload()
        else:
            session.prepare()
        chat = session.store.create().id
        victim = draw.choice(running)
        started = time.monotonic()
        moment = draw.uniform(0.0, 4.0 if loading else 0.4)
        killer = threading.Timer(moment, kill, [victim])
        killer.start()
        error = ask(session, chat, f"Question {number}: " + "tell me more about numbers. " * draw.randrange(1, 30))
        killer.join()
        if error:
            said.append(error)
            assert error.endswith(".")
        stored = session.store.path(chat)
        if len(stored) > 1:
            assert stored[-1].meta.get("error") == error
        print(f"{number}: killed after {moment:.2f} s of {time.monotonic() - started:.2f}: {error}")
        answered_again(session, running)
    return said


def answered_again(session: Session, running: list[Worker]) -> None:
    """The workers start again by themselves; then the next message is answered and stored."""
    end = time.monotonic() + 120
    while True:
        chat = session.store.create().id
        error = ask(session, chat, "And what is two and two?")
        if error is None:
            message = session.store.path(chat)[-1]
            assert message.content
            assert message.meta["finish_reason"] != "failed"
            return
        assert time.monotonic() < end, error
        time.sleep(0.5)


def kill(worker: Worker) -> None:
    """End its serving process, whatever it is doing."""
    with contextlib.suppress(psutil.Error):
        worker.inner.kill()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("rounds", "seed"), [(3, 1), pytest.param(20, 2, marks=pytest.mark.slow)])
def test_a_worker_killed_at_random_moments(session, running, rounds, seed):
    """And no process of the target stays behind."""
    said = killed_at_random(session, running, rounds, seed)
    assert said or rounds < 20, "no kill met an answer, so nothing was tested"
    child = psutil.Process(session.assistant.target.pid)
    session.close()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running()


def counting(session: Session, chat: str, characters: int) -> AnswerJob:
    """A long answer of which so much is written, or that is over."""
    job = conversing.ask(session, chat, "Count from one to a thousand in words.")
    end = time.monotonic() + 60
    while len(job.text) < characters and not job.over:
        assert time.monotonic() < end
        time.sleep(0.005)
    return job


def test_what_was_written_stays_when_a_worker_is_lost_in_the_middle(session, running, monkeypatch):
    take = AnswerJob._take  # so slow that there is time to lose a worker
    monkeypatch.setattr(AnswerJob, "_take", lambda job, e: (time.sleep(0.05 * isinstance(e, Token)), take(job, e)))
    session.apply(**{"sampling.max_tokens": 900})
    session.prepare()
    chat = session.store.create().id
    job = counting(session, chat, 1)
    running[1].inner.kill()
    job.join(60)
    assert "lost" in job.error
    stored = session.store.path(chat)[-1]
    assert stored.content == job.text
    assert stored.content
    assert stored.meta["error"] == job.error
    answered_again(session, running)
