"""Where a drafter lies that fits on a card: where its steps are quicker. The card is made up, the choice is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.learning.adapters import serving
from omnidraft.learning.adapters.serving import Choice, open_choice
from omnidraft.settings.config import AUTO_LAYERS, ModelSettings


class Opened:
    """Of a drafter on a card that has room."""

    made: list[Opened]

    def __init__(self, settings: ModelSettings) -> None:
        self.on_card, self.closed = settings.n_gpu_layers != 0, False
        Opened.made.append(self)

    @classmethod
    def open(cls, path: Path, settings: ModelSettings, vocabulary: object) -> Opened:
        return cls(settings)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("layers", "card", "here", "on_card"), [
    (AUTO_LAYERS, 2.0, 1.0, False), (AUTO_LAYERS, 1.0, 2.0, True), (1000, 2.0, 1.0, True), (0, 1.0, 2.0, False),
])  # fmt: skip
def test_a_drafter_lies_where_its_steps_are_quicker_unless_one_said_where(monkeypatch, layers, card, here, on_card):
    Opened.made = []
    monkeypatch.setattr(serving, "LlamaDrafter", Opened)
    monkeypatch.setattr(serving, "step_seconds", lambda drafter: card if drafter.on_card else here)
    drafter, _ = open_choice(Choice(Path("drafter.gguf")), ModelSettings(n_gpu_layers=layers), None)
    assert drafter.on_card == on_card
    assert [one for one in Opened.made if not one.closed] == [drafter]
