"""What the side panel says of an answer: drafted and copied apart, in words that fit the switches beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from omnidraft.app.live import Live, PlainSpeed
from omnidraft.decoding.events import Round, Token
from omnidraft.engine import SWITCHED_OFF
from omnidraft.learning.material.history import Gain
from ui.chat.panel import panel, summary


def round_of(proposed: int, accepted: int, drafted: int = 0, copied: int = 0) -> Round:
    return Round(drafted, proposed, proposed, accepted, accepted + 1, 0.001, 0.0, 0.01, 0.001, copied)


def live_of(*rounds: Round) -> Live:
    live = Live()
    for one in rounds:
        for i in range(one.emitted):
            origin = "target" if i == one.accepted else "lookup" if one.copied else "direct"
            live.take(Token(1, b"a", "a", origin, 0))
        live.take(one)
    return live


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_an_answer_that_only_copied_has_no_acceptance_of_the_drafters():
    live = live_of(*[round_of(20, 15, copied=20)] * 11)
    shown = words(panel(live))
    assert "Copied from earlier text: 165 of 220 accepted" in shown
    assert "drafter guessed" not in shown
    assert "drafted, 220 proposed" not in shown
    assert live.acceptance == []
    assert "of drafts accepted" not in words(summary(live))
    assert "165 copied" in words(summary(live))


def test_drafted_and_copied_are_counted_apart():
    live = live_of(round_of(10, 3, drafted=12), round_of(8, 8, copied=8), replace(round_of(0, 0), plain=True))
    shown = words(panel(live))
    assert "30% of what the drafter guessed was accepted: 3 of 10" in shown
    assert "Copied from earlier text: 8 of 8 accepted" in shown
    assert live.statistics.by_drafter == (10, 10, 3)
    assert (live.statistics.plain, live.statistics.rounds) == (1, 2)


def compared(seconds: float, plain: PlainSpeed | None) -> str:
    """The panel of an answer whose passes took so long."""
    return words(panel(live_of(*[replace(round_of(4, 1, drafted=4), verify=seconds)] * 4), plain=plain))


def test_a_gain_is_shown_with_its_interval_or_not_at_all():
    assert "(1.48 to 1.64), which made 50.0 tokens/s in the same minutes" in compared(0.0236, PlainSpeed(50.0, 0.05))
    assert "×" not in compared(0.0236, PlainSpeed(50.0, 0.5))
    assert "×" not in compared(0.0236, None)


def test_where_nothing_can_be_gained_the_panel_says_why():
    short = compared(0.0014, PlainSpeed(2000.0, 0.02))
    assert "a pass of this model takes 1.4 ms" in short
    assert "×" not in short
    assert "too few guesses were right" in compared(0.05, PlainSpeed(50.0, 0.02))


@pytest.mark.parametrize(("reason", "said"), [
    (SWITCHED_OFF, "Drafting is off"),
    ("drafting does not pay with these two models on this machine", "The drafter rested"),
    ("measured against plain rounds drafting lost 12% of the speed", "The drafter rested: measured against plain"),
    ("no drafter is loaded", "Nothing was drafted: no drafter is loaded."),
])  # fmt: skip
def test_only_what_was_switched_off_is_called_off(reason, said):
    shown = words(panel(None, reason))
    assert said in shown
    assert ("Drafting is off" in shown) == (reason == SWITCHED_OFF)


def test_the_panel_shows_what_learning_brought():
    shown = words(panel(live_of(round_of(4, 1, drafted=4)), gain=Gain("v000003", (0.21, 0.58))))
    assert "Since version 3: 21% → 58% of drafts accepted." in shown
    assert "×" not in shown, "speeds of other days are not compared"
