"""Log probabilities: the target's own, whatever the settings, and the same with and without a drafter."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding.events import Prefill, Token
from omnidraft.decoding.topk import Scorer
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys
from tests.fakes import TokenKind

SETTINGS = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.5, "top_k": 2},
    {"temperature": 1.0, "presence_penalty": 1.0, "frequency_penalty": 1.0, "repeat_penalty": 1.5},
]


def scored(settings, seed: int, speculation=None, alternatives: int = 3) -> list[Token]:
    sampling = SamplingSettings.unfiltered(max_tokens=16, **settings)
    events = toys.decoded(toys.target(), toys.PROMPT, sampling, seed, speculation, alternatives=alternatives)
    return [e for e in events if isinstance(e, Token)]


def expected(history) -> np.ndarray:
    """log softmax of the toy target, computed the long way."""
    row = toys.target()._row(tuple(history)).astype(np.float64).copy()
    row[toys.TARGET.kinds == TokenKind.UNUSED] = -np.inf
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


@pytest.mark.parametrize("settings", SETTINGS)
def test_they_are_the_targets_own_before_any_penalty_or_filter(settings):
    for seed in range(5):
        history = list(toys.PROMPT)
        for token in scored(settings, seed):
            logprobs = expected(history)
            best = np.argsort(-logprobs, kind="stable")[:3]
            assert token.scores.logprob == pytest.approx(logprobs[token.id], abs=1e-5)
            assert token.scores.ids == best.tolist()
            np.testing.assert_allclose(token.scores.logprobs, logprobs[best], atol=1e-5)
            history.append(token.id)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_drafter_has_no_part_in_them(settings):
    for seed in range(5):
        plain = [(token.id, token.scores) for token in scored(settings, seed)]
        for length in (1, 4):
            speculation = toys.speculation(toys.drafter(), toys.translator(), length)
            assert [(token.id, token.scores) for token in scored(settings, seed, speculation)] == plain


def test_the_whole_probability_is_one_over_a_large_vocabulary():
    scorer = Scorer(50_000)
    scorer.take(np.random.default_rng(0).normal(0, 4, 50_000).astype(np.float32))
    assert np.exp(scorer.of(7).logprobs).sum() == pytest.approx(1.0, abs=1e-6)


def test_a_prompt_may_be_scored_and_the_answer_behind_it_stays_the_same():
    sampling = SamplingSettings.unfiltered(max_tokens=6)
    prompt = [*toys.PROMPT, *[token.id for token in scored({"temperature": 1.0}, 3)]] * 12  # more than a pass
    plain = [e for e in toys.decoded(toys.target(), prompt, sampling, 1, alternatives=2) if isinstance(e, Token)]
    target = toys.target()
    target.extend(prompt[:5], 0)  # rows of what is there already are not
    events = list(toys.decoded(target, prompt, sampling, 1, alternatives=2, scores_prompt=True))
    told = [one for event in events if isinstance(event, Prefill) for one in event.scored]
    assert [token for token, _ in told] == prompt
    assert told[0][1] is None
    for at, (token, scores) in list(enumerate(told))[1:]:
        assert scores.logprob == pytest.approx(expected(prompt[:at])[token], abs=1e-5)
        assert len(scores.ids) == 2
    assert [e for e in events if isinstance(e, Token)] == plain
    read = list(toys.decoded(toys.target(), prompt, sampling, 1, writes=False))
    assert not any(isinstance(event, Token) for event in read)
    assert (read[-1].reason, read[-1].statistics.tokens) == ("length", 0)
