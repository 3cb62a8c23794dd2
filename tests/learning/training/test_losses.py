"""Each loss equals its definition, enumerated over a whole toy vocabulary in double precision, gradients included."""

import numpy as np
import pytest
import torch

from omnidraft.learning.training import evaluate
from omnidraft.learning.training.teaching import collate, windows
from tests.learning import toy

TARGETS = [0, 4, 7, 2, 9, 3, 5, 6, 8, 10]


def setup_toy(seed: int, k: int = len(toy.TARGET), targets=TARGETS):
    """(logits (N, D) float64 with gradient, Positions, record, p (n, V))."""
    rng = np.random.default_rng(seed)
    p = toy.random_p(rng, len(targets))
    record = toy.record(targets, p, k)
    batch = collate(windows(record, toy.table()))
    logits = torch.tensor(rng.normal(0, 1.5, (len(record.pieces), len(toy.DRAFTER))), requires_grad=True)
    return logits, batch.positions, record, p


def positions_of(record):
    """(token index, j) per drafter position."""
    return [(i, j) for i, span in enumerate(record.spans) for j in range(span)]


def direct_kl(q, p):
    """KL over tokens of one piece, in place of the target's: q'(t) sums over all drafter pieces with t's bytes; end
    tokens stand for each other."""
    groups = {}  # drafter pieces that mean the same -> target mass
    for t, e in enumerate(toy.EXPANSIONS):
        if len(e) == 1:
            groups[e[0]] = groups.get(e[0], 0.0) + p[t]
    total, q_left, p_left = 0.0, 1.0, 1.0
    for d, mass in groups.items():
        same = [x for x, of in enumerate(toy.DIRECT) if x == d or (of >= 0 and of == toy.DIRECT[d])]
        qd = sum(q[x] for x in same)
        total = total + qd * torch.log(qd / mass)
        q_left, p_left = q_left - qd, p_left - mass
    return total, q_left, p_left


def brute_dm(logits, record, p):
    q, total = torch.softmax(logits, 1), 0.0
    for row, (i, _) in enumerate(positions_of(record)):
        if record.spans[i] == 1:
            found, q_left, p_left = direct_kl(q[row], p[i])
            total = total + found + q_left * torch.log(q_left / max(p_left, 1e-6))
    return total / len(record.pieces)


def brute_ngram(logits, record):
    logq, total = torch.log_softmax(logits, 1), 0.0
    for row, (i, _) in enumerate(positions_of(record)):
        if record.spans[i] > 1:
            total = total - logq[row, record.pieces[row]]
    return total / len(record.pieces)


def brute_projected(logits, record, p):
    """KL, and the chance that a draw from q is rejected."""
    logq, total = torch.log_softmax(logits, 1), 0.0
    for row, (i, j) in enumerate(positions_of(record)):
        node = tuple(int(d) for d in record.pieces[row - j : row])
        teacher = {}
        for t, e in enumerate(toy.EXPANSIONS):
            if e[:j] == node and len(e) > j:
                teacher[e[j]] = teacher.get(e[j], 0.0) + p[i, t]
        mass = sum(teacher.values())
        for d, m in teacher.items():
            total = total + (m / mass) * (np.log(m / mass) - logq[row, d])
        total = total + 1 - sum(logq[row, d].exp().clamp_max(m / mass) for d, m in teacher.items())
    return total / len(record.pieces)


BRUTE = {
    "hybrid": lambda z, r, p: brute_dm(z, r, p) + 0.2 * brute_ngram(z, r),
    "projected": brute_projected,
}


@pytest.mark.parametrize("name", sorted(BRUTE))
@pytest.mark.parametrize("seed", range(4))
def test_value_and_gradient_equal_the_enumerated_definition(name, seed):
    logits, at, record, p = setup_toy(seed)
    fast = evaluate.LOSSES[name](torch.log_softmax(logits, 1), at)
    (fast_gradient,) = torch.autograd.grad(fast, logits)
    slow = BRUTE[name](logits, record, p)
    (slow_gradient,) = torch.autograd.grad(slow, logits)
    assert fast.item() == pytest.approx(slow.item(), abs=2e-5)  # candidates below 1e-5 are "other"; p is float32
    assert torch.allclose(fast_gradient, slow_gradient, atol=2e-5)
    assert fast_gradient.abs().max() > 1e-3
