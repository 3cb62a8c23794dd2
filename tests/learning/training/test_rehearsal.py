"""Text the bare drafter draws itself, and holding the adapted one to it."""

import pytest
import torch

from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.steps import draw
from omnidraft.learning.training.teaching import collate


def divergence(drafter: TorchDrafter, texts: list) -> float:
    """KL(bare || adapted) by its definition, in nats a position."""
    with torch.no_grad():
        rows = collate(texts)
        q = drafter.output.log_probabilities(drafter.rows(rows))
        with drafter.model.disable_adapter():
            p = drafter.output.log_probabilities(drafter.rows(rows))
    return (p.exp() * (p - q)).sum(1).mean().item()


@pytest.mark.slow
def test_an_update_with_it_moves_the_drafter_less_where_nothing_was_learned(world, drafter):
    """Text drawn from another seed: the update has not seen it."""
    moved = {}
    world.add(world.records[:16])
    for weight in (0.0, 10.0):
        world.store.folder = world.store.folder.with_name(f"store-{weight}")
        event = world.update(rehearsal=weight, passes=6, store=str(world.store.folder))
        assert event.outcome == "published"
        model = TorchDrafter(drafter, 32)
        model.load_weights(read_weights(world.store.current().weights))
        moved[weight] = divergence(model, draw(model, 123_456).windows())
    assert moved[10.0] < 0.5 * moved[0.0]
