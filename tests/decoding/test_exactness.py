"""The text is the target's own: distribution tests on models small enough to enumerate, and identity tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from omnidraft.decoding.events import Token
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import PairMap, TokenKind, Translator
from tests.decoding import toys

LENGTH = 4  # tokens of an answer: the first comes without drafting, three are speculated
moderate = pytest.mark.parametrize("answers", [4_000, pytest.param(15_000, marks=pytest.mark.slow)])


def answer(target, sampling, seed, speculation=None) -> tuple[int, ...]:
    return tuple(e.id for e in toys.decoded(target, toys.PROMPT, sampling, seed, speculation) if isinstance(e, Token))


def enumerated(step: Callable[[tuple[int, ...], np.ndarray], np.ndarray]) -> dict[tuple[int, ...], float]:
    """Probability of every answer of up to LENGTH tokens, where step(said, row) is the distribution behind `said`."""
    target = toys.target()
    done: dict[tuple[int, ...], float] = {}
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(LENGTH):
        grown: dict[tuple[int, ...], float] = {}
        for said, mass in open_.items():
            row = target._row((*toys.PROMPT, *said)).astype(np.float64)
            row[target.vocabulary.kinds == TokenKind.UNUSED] = -np.inf
            p = step(said, row)
            for token in np.flatnonzero(p).tolist():
                (done if token in target.vocabulary.eog else grown)[(*said, token)] = mass * p[token] / p.sum()
        open_ = grown
    return done | open_


def exact_probabilities(temperature: float = 1.0) -> dict[tuple[int, ...], float]:
    """Those of direct sampling."""
    return enumerated(lambda said, row: np.exp((row - row.max()) / temperature))


def sample(drafted: bool, n: int, temperature: float = 1.0, length: int = 4, first_seed: int = 0) -> Counter:
    target, drafter, translate = toys.target(), toys.drafter(), toys.translator()
    sampling = SamplingSettings.unfiltered(temperature=temperature, max_tokens=LENGTH)
    found: Counter = Counter()
    for seed in range(first_seed, first_seed + n):
        speculation = toys.speculation(drafter, translate, length) if drafted else None
        found[answer(target, sampling, seed, speculation)] += 1
    return found


def p_value(found: Counter, expected: dict[tuple[int, ...], float]) -> float:
    """Chi-square of counts against probabilities; answers expected fewer than 5 times are put together."""
    n = sum(found.values())
    assert set(found) <= set(expected), "an answer that direct sampling cannot give"
    rare = [a for a, p in expected.items() if p * n < 5]
    common = [a for a in expected if a not in set(rare)]
    observed = [found[a] for a in common] + [sum(found[a] for a in rare)]
    wanted = [expected[a] * n for a in common] + [sum(expected[a] for a in rare) * n]
    if not rare:
        observed, wanted = observed[:-1], wanted[:-1]
    return stats.chisquare(observed, np.array(wanted) * sum(observed) / sum(wanted)).pvalue


@moderate
@pytest.mark.parametrize("drafted", [False, True])
def test_a_moderate_sample_is_indistinguishable_from_direct_sampling(drafted, answers):
    assert p_value(sample(drafted, answers), exact_probabilities()) > 0.001


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("length", "temperature"), [(4, 1.0), (6, 0.7)])
def test_two_hundred_thousand_answers_are_indistinguishable_from_direct_sampling(length, temperature):
    found = sample(True, 200_000, temperature, length)
    p = p_value(found, exact_probabilities(temperature))
    print(f"draft length {length}, T {temperature}: p = {p:.4f}")
    assert p > 0.001


@pytest.mark.parametrize("settings", [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 1.0, "repeat_penalty": 1.3},
    {"temperature": 0.0, "presence_penalty": 0.9, "frequency_penalty": 0.7},
    {"temperature": 0.8, "presence_penalty": -1.5, "repeat_penalty": 1.2},
])  # fmt: skip
def test_same_seed_same_text_with_or_without_drafter_cache_and_length(settings):
    sampling = SamplingSettings.unfiltered(max_tokens=40, **settings)
    for seed in range(8):
        plain = answer(toys.target(), sampling, seed)
        for cached, length in ((True, 1), (True, 7), (False, 3)):
            speculation = toys.speculation(toys.drafter(), toys.translator(cached), length)
            assert answer(toys.target(), sampling, seed, speculation) == plain


def test_a_drafter_with_the_targets_own_distribution_is_always_right():
    """Its draws come with the same noise, position by position."""
    translate = Translator(PairMap.build(toys.DRAFTER, toys.DRAFTER, None), None)
    sampling, tested = SamplingSettings.unfiltered(temperature=1.0, max_tokens=24), 0
    for seed in range(20):
        speculation = toys.speculation(toys.drafter(), translate)
        *_, end = toys.decoded(toys.drafter(), toys.PROMPT, sampling, seed, speculation)
        assert end.statistics.accepted == end.statistics.tested
        tested += end.statistics.tested
    assert tested > 50
