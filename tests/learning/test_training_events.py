"""What the training process says, on its way through a line and into an update."""

from __future__ import annotations

import pytest

from omnidraft.learning.facts import Update
from omnidraft.learning.training_events import (
    Compared,
    Ended,
    Estimated,
    Event,
    Failed,
    Finished,
    Published,
    Refused,
    Started,
    Stepped,
    advance,
    conclude,
    from_line,
)

SLICES = {"old": {"direct": 0.1, "greedy": 0.2, "overlap": 0.3, "tokens": 40}}
EVENTS = [
    Started(8, 24, 40), Stepped(1, 4, 2.5, 300), Estimated("before", SLICES), Published("v000001", 16, "it rises"),
    Refused(16, "it did not rise"), Compared(True, SLICES, SLICES), Failed("no memory"), Finished(2.0, 1.5, 400.0),
    Ended(-9, "killed"),
]  # fmt: skip
UPDATE = Update(1, 0.0, "d", "t", "v")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_survives_its_line(event):
    line = event.to_line()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert from_line(line) == event


def test_every_kind_of_event_is_tried_here():
    assert {type(event) for event in EVENTS} == set(Event.__subclasses__())


@pytest.mark.parametrize("line", ["", "no json", "[]", '{"event": "sung"}', '{"event": "started", "new": 1}'])
def test_a_line_that_is_no_event_is_none(line):
    assert from_line(line) is None


def test_an_update_is_what_its_events_say():
    update = UPDATE
    for event in EVENTS[:4]:
        update = advance(update, event)
    assert (update.answers_new, update.answers_replayed, update.step, update.steps, update.losses) == (
        8,
        24,
        1,
        4,
        (2.5,),
    )
    assert (update.before, update.after) == (SLICES, {})
    assert (update.outcome, update.version, update.reason) == ("published", "v000001", "It rises.")
    assert advance(UPDATE, Refused(16, "no")).outcome == "refused"
    assert advance(UPDATE, Compared(True, SLICES, SLICES)) == UPDATE


@pytest.mark.parametrize(("code", "why", "outcome"), [
    (1, None, "failed"), (-9, None, "interrupted"), (-9, "The program was closed.", "interrupted"),
])  # fmt: skip
def test_an_update_whose_process_is_gone_is_over(code, why, outcome):
    update = conclude(UPDATE, Ended(code, "it broke"), why)
    assert update.outcome == outcome
    assert update.ended is not None
    assert conclude(advance(UPDATE, Refused(1, "no")), Ended(0, ""), None).outcome == "refused"
