"""The output layer for some pieces: what is estimated of the others, and what is exact."""

from __future__ import annotations

import pytest
import torch

from omnidraft.learning.training import drafter
from omnidraft.learning.training.drafter import TorchDrafter


@pytest.fixture(scope="module")
def model(drafter):
    model = TorchDrafter(drafter, 8)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in model.adapted.values():
            b = module.lora_B["default"].weight
            b.copy_(torch.randn(b.shape, generator=generator) * 0.1)
    return model


@pytest.fixture(scope="module")
def hidden(model):
    ids = torch.randint(3, 3000, (1, 60), generator=torch.Generator().manual_seed(2))
    return model.hidden(ids)[0].detach()


def whole(model, hidden):
    """Logits over all pieces as PEFT computes them."""
    return model.base.get_output_embeddings()(hidden).detach()


def test_overall_is_exact_and_block_by_block(model, hidden, monkeypatch):
    monkeypatch.setattr(drafter, "BLOCK", 1000)
    total, best = model.output.overall(hidden)
    assert torch.allclose(total, whole(model, hidden).logsumexp(1), atol=1e-4)
    assert torch.equal(best, whole(model, hidden).argmax(1))
    exact = torch.log_softmax(whole(model, hidden), -1)
    assert torch.allclose(model.output.log_probabilities(hidden), exact, atol=1e-4)


def test_the_sum_over_all_pieces_is_estimated_without_bias(model, hidden, monkeypatch):
    """Few pieces, so that the sample matters: the mean of Z over many draws is Z, one estimate is not."""
    monkeypatch.setattr(drafter, "COMMON", 16)
    monkeypatch.setattr(drafter, "DRAWN", 64)
    torch.manual_seed(0)
    model.output.note(hidden)
    exact, named = whole(model, hidden).logsumexp(1), torch.arange(5, 15)
    ratios = []
    for _ in range(400):
        pieces, logq = model.output.estimate_log_probabilities(hidden, named)
        logits = whole(model, hidden)[:, pieces[:1]]
        ratios.append((logits - logq[:, :1] - exact[:, None]).exp().detach()[:, 0])
    found = torch.stack(ratios)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - 1).abs() < 4.5 * error).all()
    assert found.std() > 0.01


def test_what_is_named_is_there_and_nothing_is_drawn_where_all_is_listed(model, hidden, monkeypatch):
    named = torch.tensor([7, 4000])
    pieces, _ = model.output.estimate_log_probabilities(hidden, named)
    assert set(named.tolist()) <= set(pieces.tolist())
    assert len(pieces) <= drafter.COMMON + drafter.DRAWN + 2
    monkeypatch.setattr(drafter, "COMMON", model.output.size)
    pieces, logq = model.output.estimate_log_probabilities(hidden, named)
    assert torch.equal(pieces, torch.arange(model.output.size))
    assert torch.allclose(logq, torch.log_softmax(whole(model, hidden), -1), atol=1e-4)


def test_gradients_reach_the_adapter_of_the_pieces_listed_alone(model, hidden):
    model.model.zero_grad()
    pieces, logq = model.output.estimate_log_probabilities(hidden, torch.tensor([7]))
    logq[:, 0].sum().backward()
    gradient = model.adapted["output"].lora_B["default"].weight.grad.abs().sum(1)
    assert set(gradient.nonzero().flatten().tolist()) <= set(pieces.tolist())
    assert gradient[7] > 0
