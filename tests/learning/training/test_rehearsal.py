"""Text the bare drafter draws itself, and holding the adapted one to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.rehearsal import LENGTH, Rehearsal, divergence, draw


def test_the_divergence_is_its_definition_gradient_included():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(0, 1, (2, 3, 5)), requires_grad=True)
    p = torch.softmax(torch.tensor(rng.normal(0, 1, (2, 3, 5))), -1)
    divergence(p.log(), torch.log_softmax(logits, -1)).backward()
    found, logits.grad = logits.grad.clone(), None
    q = torch.softmax(logits, -1)
    total = 0.0
    for row in range(2):
        for column in range(3):
            for d in range(5):
                total = total + p[row, column, d] * torch.log(p[row, column, d] / q[row, column, d])
    (total / 6).backward()
    assert torch.allclose(found, logits.grad)
    assert divergence(p.log(), torch.log_softmax(logits, -1)).item() == pytest.approx(total.item() / 6)
    assert divergence(p.log(), p.log()) == 0


@pytest.fixture
def bare(drafter):
    return TorchDrafter(drafter, 4)


@pytest.fixture
def adapted(drafter):
    model = TorchDrafter(drafter, 4)
    rng = np.random.default_rng(1)
    weights = {name: torch.tensor(rng.normal(0, 0.1, value.shape), dtype=torch.float32)
               for name, value in model.weights().items()}  # fmt: skip
    model.load_weights(weights)
    return model


def test_the_adapter_takes_no_part_in_the_drawing_and_the_seed_decides(bare, adapted):
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    first = draw(bare, 5, drawn=3).ids
    assert torch.equal(torch.rand(3), expected)  # nobody else's numbers are used up
    assert first.shape == (3, 1 + LENGTH)
    assert (first[:, 0] == bare.first_id).all()
    assert len({tuple(row) for row in first.tolist()}) == 3
    assert torch.equal(draw(adapted, 5, drawn=3).ids, first)
    assert not torch.equal(draw(bare, 6, drawn=3).ids, first)


def test_only_what_the_adapter_changes_costs(bare, adapted):
    texts = draw(adapted, 5, drawn=2)
    assert Rehearsal(bare, 1.0, 2048, 5, texts).loss().item() == pytest.approx(0, abs=1e-6)
    one, two = (Rehearsal(adapted, weight, 2048, 5, texts).loss() for weight in (1.0, 2.0))
    assert one.item() > 0.01
    assert two.item() == pytest.approx(2 * one.item(), rel=1e-4)
    one.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in adapted.parameters())
    assert not any(p.grad is not None for p in adapted.base.parameters() if not p.requires_grad)


def test_a_step_reads_no_more_than_it_may(bare):
    read = []
    rehearsal = Rehearsal(bare, 1.0, longest=LENGTH + 1, seed=0, texts=draw(bare, 0, drawn=5))
    hidden = bare.hidden
    bare.hidden = lambda ids: read.append(ids.shape) or hidden(ids)
    rehearsal.loss()
    assert read == [(1, LENGTH)]


def test_an_update_with_it_moves_the_drafter_less_where_nothing_was_learned(world, drafter):
    """Text drawn from another seed: the update has not seen it."""
    moved = {}
    world.add(world.records[:16])
    for weight in (0.0, 10.0):
        world.store.folder = world.store.folder.with_name(f"store-{weight}")
        event = world.update(rehearsal=weight, passes=4, store=str(world.store.folder))
        assert event.kind == "published"
        model = TorchDrafter(drafter, 32)
        model.load_weights(read_weights(world.store.current().weights))
        with torch.no_grad():
            moved[weight] = Rehearsal(model, 1.0, 2048, 0, draw(model, 123_456)).loss().item()
    assert moved[10.0] < 0.5 * moved[0.0]
