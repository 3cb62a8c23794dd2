"""What the training process says, on its way through a line and into an update."""

from __future__ import annotations

import pytest

from omnidraft.learning.facts import Update
from omnidraft.learning.training_job import (
    Ended,
    Refused,
    advance,
    conclude,
    from_line,
)

UPDATE = Update(1, 0.0, "d", "t", "v")


@pytest.mark.parametrize("line", ["", "no json", "[]", '{"event": "sung"}', '{"event": "started", "new": 1}'])
def test_a_line_that_is_no_event_is_none(line):
    assert from_line(line) is None


@pytest.mark.parametrize(("code", "why", "outcome"), [
    (1, None, "failed"), (-9, None, "interrupted"), (-9, "The program was closed.", "interrupted"),
])  # fmt: skip
def test_an_update_whose_process_is_gone_is_over(code, why, outcome):
    update = conclude(UPDATE, Ended(code, "it broke"), why)
    assert update.outcome == outcome
    assert update.ended is not None
    assert conclude(advance(UPDATE, Refused(1, "no")), Ended(0, ""), None).outcome == "refused"
