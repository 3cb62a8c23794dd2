"""Who must not wait for an answer is refused at once, also where it begins while he looks."""

from __future__ import annotations

import threading
import time

import pytest

from omnidraft.app.assistant import Assistant, Busy
from omnidraft.storage.paths import find_data_home


@pytest.fixture
def assistant(tmp_path):
    made = Assistant(find_data_home(tmp_path), ephemeral=True)
    yield made
    made.close()


def test_a_caller_that_must_not_wait_never_waits(assistant):
    assistant._models.take()  # as somebody does who loads models; behind him an answer begins
    begins = threading.Thread(target=assistant._models.take, args=(True,))
    begins.start()
    told: list[str] = []

    def ask() -> None:
        try:
            assistant.embed(["a"], bool)
        except Exception as error:
            told.append(type(error).__name__)

    asks = [threading.Thread(target=ask) for _ in range(8)]
    for one in asks:
        one.start()
    assistant._models.leave()
    for one in asks:
        one.join(10)
    assert len(told) == 8
    assert set(told) <= {"Busy", "ModelError"}, (
        "no model is loaded, so whose turn came before the answer's hears of that"
    )
    begins.join(10)
    begun = time.perf_counter()
    with pytest.raises(Busy):
        assistant.embed(["a"], bool)
    with pytest.raises(Busy):
        next(assistant.answer(None, wait=False))
    assert time.perf_counter() - begun < 0.04, "not even for a moment"
    assistant._models.leave()


def test_looking_and_taking_are_one_step(assistant):
    """Of many at once one has it, and everybody else is told so without waiting for him to leave."""
    together, inside, told = threading.Barrier(16), [], []

    def take() -> None:
        together.wait(10)
        try:
            assistant._models.take(True, "No.")
            inside.append(threading.get_ident())
        except Busy:
            told.append(1)

    for _ in range(50):
        inside.clear()
        told.clear()
        all_ = [threading.Thread(target=take) for _ in range(16)]
        for one in all_:
            one.start()
        for one in all_:
            one.join(10)
        assert (len(inside), len(told)) == (1, 15)
        assistant._models.leave()
