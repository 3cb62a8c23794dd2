"""The sampler against brute force: filters, penalty, padding, capture, and the distribution of what it draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from omnidraft.decoding import sampling
from omnidraft.decoding.sampling import HEAD, Sampler
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import TokenKind
from tests.fakes import toy_vocabulary

SIZE = 700  # beyond the head and beyond one group of the tail
PADDING = 20
VOCABULARY = toy_vocabulary([f"<{i}>".encode() for i in range(SIZE - 1)], padding=PADDING)


@pytest.fixture(autouse=True, params=["large", "small"])
def captured_at_once_or_later(request, monkeypatch):
    """All holds for large vocabularies, looked through while answering, and for small ones, looked through later."""
    monkeypatch.setattr(sampling, "SMALL", 0 if request.param == "large" else 1 << 20)


def row(seed: int, scale: float = 2.0) -> np.ndarray:
    """Logits whose padding is tempting."""
    rng = np.random.default_rng(seed)
    out = rng.normal(0, scale, SIZE + PADDING).astype(np.float32)
    out[SIZE:] = 50.0
    return out


def brute_force(logits: np.ndarray, settings: SamplingSettings) -> np.ndarray:
    """The filtered distribution, by sorting everything."""
    logits = logits[:SIZE].astype(np.float64)
    p = np.exp(logits - logits.max())
    order = np.argsort(-logits)
    keep = order[: settings.top_k or SIZE]
    share = np.cumsum(p[keep]) / p[keep].sum()
    keep = keep[: int(np.searchsorted(share, settings.top_p)) + 1] if settings.top_p < 1 else keep
    keep = keep[p[keep] >= settings.min_p * p[keep[0]]] if settings.min_p > 0 else keep
    out = np.zeros(SIZE + PADDING)
    out[keep] = np.exp((logits[keep] - logits[keep[0]]) / settings.temperature)
    return out / out.sum()


FILTERS = [
    {}, {"temperature": 0.3}, {"temperature": 2.5}, {"top_k": 1}, {"top_k": 5}, {"top_k": 300, "temperature": 1.7},
    {"top_k": 100_000}, {"top_p": 0.1}, {"top_p": 0.9}, {"top_p": 0.999, "temperature": 0.6}, {"top_p": 0.0},
    {"min_p": 0.05}, {"min_p": 1.0}, {"min_p": 0.0005, "temperature": 3.0},
    {"top_k": 40, "top_p": 0.8, "min_p": 0.02, "temperature": 0.9}, {"top_k": 200, "top_p": 0.95},
    {"top_k": 100_000, "top_p": 0.8},
]  # fmt: skip


def probabilities(s: Sampler, row: np.ndarray) -> np.ndarray:
    """(V,) what is left of a prepared `row` behind the filters, summing to 1."""
    head, weights = s._head(row), np.full(len(row), -np.inf)
    if head.rest:
        weights[:] = row
    else:
        weights[head.ids] = head.logits
    weights = np.exp((weights - head.logits[0]) / s.settings.temperature)
    return weights / weights.sum()


def sampler(settings: SamplingSettings, seed: int = 0, capture: int = 0) -> Sampler:
    return Sampler(settings, VOCABULARY, seed, capture)


@pytest.mark.parametrize("filters", [*FILTERS, {"temperature": 0.0}], ids=str)
def test_what_is_drawn_does_not_depend_on_what_is_captured(filters):
    settings = SamplingSettings.unfiltered(**{"temperature": 1.0, **filters})
    for seed in range(10):
        drawn = set()
        for capture in (0, 48):
            one, logits = sampler(settings, seed, capture), row(seed, 0.2 + seed / 4)
            one.prepare(logits, [])
            drawn.add(one.draw(logits, seed))
        assert len(drawn) == 1


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("capture", [0, 48])
def test_filters_keep_what_brute_force_keeps(filters, capture):
    settings = SamplingSettings.unfiltered(**{"temperature": 1.0, **filters})
    for seed in range(8):
        logits = row(seed, scale=0.2 + seed / 2)
        prepared = logits.copy()
        s = sampler(settings, capture=capture)
        s.prepare(prepared, [])
        np.testing.assert_allclose(probabilities(s, prepared), brute_force(logits, settings), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("filters", [{}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.1}], ids=str)
def test_draws_follow_the_filtered_distribution(filters):
    """With a flat enough row that the tail behind the head holds much of the mass."""
    settings = SamplingSettings.unfiltered(**{"temperature": 1.0, **filters})
    logits = row(1, scale=1.0)
    s = sampler(settings, seed=7)
    expected = brute_force(logits, settings)
    if not filters:
        assert 0.2 < np.sort(expected)[::-1][HEAD:].sum() < 0.8
    n = 8_000
    prepared = logits.copy()
    s.prepare(prepared, [])
    counts = np.bincount([s.draw(prepared, position) for position in range(n)], minlength=SIZE + PADDING)
    assert counts[expected == 0].sum() == 0
    common = expected * n >= 5
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*(expected[common] * n), expected[~common].sum() * n]
    if wanted[-1] == 0:
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, np.array(wanted) * n / sum(wanted)).pvalue > 1e-4


def test_padding_is_never_drawn_and_weighs_nothing():
    for settings in (SamplingSettings.unfiltered(temperature=0.0), SamplingSettings.unfiltered(temperature=10.0)):
        for position in range(100):
            logits = row(position)
            s = sampler(settings)
            s.prepare(logits, [])
            drawn = s.draw(logits, position)
            assert VOCABULARY.kinds[drawn] != TokenKind.UNUSED


def test_at_temperature_zero_the_most_probable_id_is_drawn():
    for seed in range(50):
        for capture in (0, 48):
            logits = row(seed)
            s = sampler(SamplingSettings.unfiltered(temperature=0.0), seed, capture)
            s.prepare(logits, [])
            assert s.draw(logits, 0) == int(logits[:SIZE].argmax())


@pytest.mark.parametrize("penalty", [0.5, 1.3, 3.0])
def test_the_penalty_divides_positive_logits_and_multiplies_negative_ones_once(penalty, monkeypatch):
    logits = row(4)
    recent = [3, 3, 9, 11, 600, 3]
    prepared = logits.copy()
    monkeypatch.setattr(sampling, "LAST", 4)
    sampler(SamplingSettings.unfiltered(temperature=0.0, repeat_penalty=penalty)).prepare(prepared, recent)
    expected = logits.copy()
    for i in {9, 11, 600, 3}:
        expected[i] = logits[i] / penalty if logits[i] > 0 else logits[i] * penalty
    np.testing.assert_allclose(prepared[:SIZE], expected[:SIZE], rtol=1e-6)


def test_captured_candidates_are_the_targets_own_whatever_the_settings():
    settings = SamplingSettings.unfiltered(temperature=0.4, top_k=2, repeat_penalty=2.0)
    logits = row(5)
    prepared = logits.copy()
    captured = sampler(settings, capture=48).prepare(prepared, [int(logits[:SIZE].argmax())])
    prepared[:] = 0.0  # the next pass overwrites it
    p = np.exp(logits[:SIZE].astype(np.float64))
    p /= p.sum()
    order = np.argsort(-p)[:48]
    assert captured.ids.tolist() == order.tolist()
    np.testing.assert_allclose(np.exp(captured.logprobs), p[order], rtol=1e-4)
    assert captured.rest == pytest.approx(1 - p[order].sum(), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_bias_is_drawn_by_and_left_out_of_what_is_captured(temperature):
    """A row's likeliest ids are found once; those found before the bias must not decide."""
    logits = row(3)
    least = int(logits[:SIZE].argmin())
    settings = SamplingSettings.unfiltered(temperature=temperature)
    biased, moved = Sampler(settings, VOCABULARY, 0, 8, bias={least: 100.0}), logits.copy()
    captured = biased.prepare(moved, [])
    assert biased.draw(moved, 0) == least
    assert captured.ids.tolist() == np.argsort(-logits[:SIZE])[:8].tolist()
