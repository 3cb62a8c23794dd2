"""Text the bare drafter draws itself, and holding the adapted one to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omnidraft.learning.training import losses, steps
from omnidraft.learning.training.batches import collate
from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.steps import KEPT, LENGTH, draw


def loss(drafter: TorchDrafter, texts: list) -> torch.Tensor:
    """Of the texts, over the whole vocabulary."""
    batch = collate(texts)
    return losses.divergence(drafter.output.log_probabilities(drafter.rows(batch)), batch.positions)


def divergence(drafter: TorchDrafter, texts: list) -> float:
    """KL(bare || adapted) by its definition, in nats a position."""
    with torch.no_grad():
        rows = collate(texts)
        q = drafter.output.log_probabilities(drafter.rows(rows))
        with drafter.model.disable_adapter():
            p = drafter.output.log_probabilities(drafter.rows(rows))
    return (p.exp() * (p - q)).sum(1).mean().item()


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
    assert np.array_equal(draw(adapted, 5, drawn=3).ids, first)
    assert not np.array_equal(draw(bare, 6, drawn=3).ids, first)


def test_it_is_drawn_once_for_good(bare, tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "DRAWN", 2)
    first = steps.drawn_once(bare, 0, tmp_path / "new")
    monkeypatch.setattr(steps, "draw", lambda *_: pytest.fail("drawn again"))
    again = steps.drawn_once(bare, 0, tmp_path / "new")
    assert all(np.array_equal(value, vars(again)[name]) for name, value in vars(first).items())
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(pytest.fail.Exception):
        steps.drawn_once(bare, 0, tmp_path / "new")


def test_a_text_says_what_the_bare_drafter_gives_to_each_piece(bare, adapted):
    (text,) = draw(adapted, 5, drawn=1).windows()
    q = bare.output.log_probabilities(bare.hidden(torch.tensor(text.ids[None, :-1]))[0]).exp().detach().numpy()
    at = np.arange(LENGTH)
    assert np.allclose(text.teaching.p_served, q[at, text.ids[1:]], atol=1e-5)
    assert np.allclose(text.teaching.node.p, q[at[:, None], text.teaching.node.ids[..., 0]], atol=1e-5)
    assert np.allclose(text.teaching.node.p[:, 0], q.max(1), atol=1e-5)
    assert text.teaching.node.p.shape == (LENGTH, KEPT)
    assert np.allclose(text.teaching.node.p.sum(1) + text.teaching.node.other, 1, atol=1e-4)


def test_a_piece_is_drawn_as_often_as_its_probability_says():
    q = torch.tensor([0.0, 0.5, 0.0, 0.2, 0.3, 0.0])
    drawn = steps.draw_pieces(q.expand(20_000, -1), torch.Generator().manual_seed(3))
    assert drawn.shape == (20_000, 1)
    shares = torch.bincount(drawn[:, 0], minlength=6) / 20_000
    assert not shares[q == 0].any()
    torch.testing.assert_close(shares, q, rtol=0, atol=0.015)


def test_its_loss_is_the_divergence_but_for_the_inside_of_other(bare, adapted):
    texts = draw(adapted, 5, drawn=8).windows()
    inside = [text.teaching.p_served < text.teaching.node.p.min(1) for text in texts]  # pieces outside the likeliest
    least = -np.log(np.concatenate([t.teaching.p_served for t in texts]))[np.concatenate(inside)].sum()
    own = -sum(np.log(t.teaching.node.other[i]).sum() for t, i in zip(texts, inside, strict=True))
    assert loss(bare, texts).item() == pytest.approx((least - own) / (8 * LENGTH), abs=1e-3)
    moved = (loss(adapted, texts) - loss(bare, texts)).item()
    assert moved == pytest.approx(divergence(adapted, texts), rel=0.25)
    assert moved > 0.01


def test_an_update_with_it_moves_the_drafter_less_where_nothing_was_learned(world, drafter):
    """Text drawn from another seed: the update has not seen it."""
    moved = {}
    world.add(world.records[:16])
    for weight in (0.0, 10.0):
        world.store.folder = world.store.folder.with_name(f"store-{weight}")
        event = world.update(rehearsal=weight, passes=6, store=str(world.store.folder))
        assert event.kind == "published"
        model = TorchDrafter(drafter, 32)
        model.load_weights(read_weights(world.store.current().weights))
        moved[weight] = divergence(model, draw(model, 123_456).windows())
    assert moved[10.0] < 0.5 * moved[0.0]
