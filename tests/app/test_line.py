"""First come, first served; who comes to a full line is told when to come again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from omnidraft.app import line as module
from omnidraft.app.line import Line, LineFull


def test_the_first_who_came_is_first_until_gone():
    line = Line()
    with line.place() as one, line.place() as two:
        assert one.is_first
        assert not two.is_first
        with line.place() as three:
            pass
        assert not three.is_first
    assert line.first is None


def test_who_gives_up_in_the_middle_moves_nobody():
    line, first, middle = Line(), ExitStack(), ExitStack()
    one = first.enter_context(line.place())
    middle.enter_context(line.place())
    with line.place() as last:
        middle.close()
        assert one.is_first
        first.close()
        assert last.is_first


def test_a_full_line_says_when_to_come_again_but_keeps_whom_it_let_in(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 2)
    line = Line()
    with line.place(), line.place():
        with pytest.raises(LineFull, match=r"try again in \d+ seconds") as told, line.place():
            pass
        assert told.value.seconds >= 1
        with line.place(again=True) as own:
            assert not own.is_first
    with line.place() as own:
        assert own.is_first
