"""Constrained answers: the restricted distribution exactly, with and without a drafter, and never anything refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from omnidraft.decoding.constraint import ConstrainedSampler
from omnidraft.decoding.events import Token
from omnidraft.errors import ModelError
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys
from tests.decoding.test_exactness import LENGTH, enumerated, p_value
from tests.fakes import toy_vocabulary

TARGET = toys.TARGET
END = TARGET.eos


class Unforced:
    """What constraints have in common that leave a choice everywhere."""

    size: int

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def mask(self):
        return self.allowed(np.arange(self.size))

    def only(self):
        return None

    def forced(self):
        return []


class NoRepeats(Unforced):
    """Two neighbouring bytes differ, and the answer ends only behind an even number of bytes, at least two."""

    size = TARGET.size

    def __init__(self) -> None:
        self.said = b""

    def allowed(self, ids):
        return np.array([self._fits(int(t)) for t in ids], bool)

    def _fits(self, token: int) -> bool:
        if token == END:
            return bool(self.said) and len(self.said) % 2 == 0
        return bool(TARGET.pieces[token]) and self.follows(TARGET.pieces[token])

    def follows(self, data, end=False):
        text = self.said + data
        return all(a != b for a, b in pairwise(text)) and not (end and (not text or len(text) % 2))

    def accept(self, token: int) -> None:
        assert self._fits(token)
        self.said += TARGET.pieces[token]


def answer(sampling, seed, speculation=None) -> tuple[int, ...]:
    events = toys.decoded(toys.target(), toys.PROMPT, sampling, seed, speculation, constraint=NoRepeats())
    return tuple(e.id for e in events if isinstance(e, Token))


def kept(row: np.ndarray, sampling: SamplingSettings) -> np.ndarray:
    """The filtered distribution of a row, written down independently: penalty off, top-k, then top-p."""
    p = np.exp(row - row.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    if sampling.top_p < 1:
        shares = np.cumsum(p[order]) / p[order].sum()
        order = order[: int(np.searchsorted(shares, sampling.top_p)) + 1]
    result = np.zeros_like(p)
    result[order] = np.exp((row[order] - row.max()) / sampling.temperature)
    return result / result.sum()


def probabilities(sampling: SamplingSettings) -> dict[tuple[int, ...], float]:
    """Every answer's probability where each position is the filtered distribution, restricted and renormalised."""

    def step(said: tuple[int, ...], row: np.ndarray) -> np.ndarray:
        state = NoRepeats()
        for token in said:
            state.accept(token)
        ok = state.allowed(np.arange(TARGET.size))
        p = kept(row, sampling) * ok
        return p if p.any() else kept(np.where(ok, row, -np.inf), sampling)  # filters apply to what is allowed

    return enumerated(step)


@pytest.mark.parametrize("drafted", [False, True])
@pytest.mark.parametrize("filters", [{}, {"top_k": 2}, {"top_p": 0.7, "temperature": 0.8}])
def test_answers_follow_the_restricted_distribution(drafted, filters):
    sampling = SamplingSettings.unfiltered(**{"temperature": 1.0, "max_tokens": LENGTH, **filters})
    drafter, translate = toys.drafter(), toys.translator()
    found: Counter = Counter()
    for seed in range(1000):
        found[answer(sampling, seed, toys.speculation(drafter, translate) if drafted else None)] += 1
    assert p_value(found, probabilities(sampling)) > 0.001


class Only(Unforced):
    """The same tokens at every position."""

    size = 2001

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def allowed(self, ids):
        return np.isin(ids, self.tokens)

    def accept(self, token):
        pass


WIDE = toy_vocabulary([bytes([n // 250 + 1, n % 250 + 1]) for n in range(2000)])


def draws(constraint, n: int, temperature: float = 1.0) -> Counter:
    row = np.linspace(3, -3, WIDE.size).astype(np.float32)
    found: Counter = Counter()
    for seed in range(n):
        sampler = ConstrainedSampler(SamplingSettings.unfiltered(temperature=temperature), WIDE, seed, 0, constraint)
        prepared = row.copy()
        sampler.prepare(prepared, [])
        found[sampler.draw(prepared, 0)] += 1
    return found


@pytest.mark.parametrize("tokens", [(5, 1500, 1999), (1200, 1300), tuple(range(0, 2000, 2))])
def test_a_wide_vocabulary_is_restricted_exactly_too(tokens):
    """Where the allowed tokens are likely ones, unlikely ones that compete in groups, or half of everything."""
    found = draws(Only(*tokens), 1500)
    weights = {(t,): float(np.exp(6 * -t / 2000)) for t in tokens}
    total = sum(weights.values())
    assert p_value(Counter({(t,): n for t, n in found.items()}), {t: w / total for t, w in weights.items()}) > 0.001


def test_the_likeliest_allowed_token_wins_at_temperature_0():
    assert set(draws(Only(40, 60), 1, 0.0)) == {40}
    assert set(draws(Only(1500, 1400), 1, 0.0)) == {1400}
    assert set(draws(Only(40, 1900), 1, 0.0)) == {40}


def test_where_nothing_can_follow_an_error_says_so():
    with pytest.raises(ModelError, match="grammar allows nothing"):
        draws(Only(), 1)
    with pytest.raises(ModelError, match="grammar allows nothing"):
        draws(Only(), 1, 0.0)
