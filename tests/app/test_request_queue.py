"""First come, first served; who comes to a full queue is told when to come again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from omnidraft.app import waiting as module
from omnidraft.app.waiting import QueueFull, RequestQueue


def test_the_first_who_came_is_first_until_gone():
    queue = RequestQueue()
    with queue.place() as one, queue.place() as two:
        assert one()
        assert not two()
        with queue.place() as three:
            assert not three()
    with queue.place() as four:
        assert four()


def test_who_gives_up_in_the_middle_moves_nobody():
    queue, first, middle = RequestQueue(), ExitStack(), ExitStack()
    one = first.enter_context(queue.place())
    middle.enter_context(queue.place())
    with queue.place() as last:
        middle.close()
        assert one()
        first.close()
        assert last()


def test_a_full_queue_says_when_to_come_again_but_keeps_whom_it_let_in(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 2)
    queue = RequestQueue()
    with queue.place(), queue.place():
        with pytest.raises(QueueFull, match=r"try again in \d+ seconds") as told, queue.place():
            pass
        assert told.value.seconds >= 1
        with queue.place(again=True) as own:
            assert not own()
    with queue.place() as own:
        assert own()


def test_questions_are_known_by_their_conversation_and_can_be_taken_back():
    queue = RequestQueue()
    first, second, third = queue.enter("a"), queue.enter(), queue.enter("b")
    assert ["a" in queue, "b" in queue, "c" in queue, None in queue] == [True, True, False, False]
    assert queue.take_back("a")
    assert not queue.take_back("a")
    assert queue.is_first(second)
    queue.leave(first)  # it is gone already
    queue.leave(second)
    assert queue.is_first(third)
    queue.enter()
    assert queue.take_back()
    assert len(queue) == 1, "only questions of pages are taken back"
