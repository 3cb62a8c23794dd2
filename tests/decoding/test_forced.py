"""Forced tokens: proposed without a drafter, the drafter behind them, and the same text as without either."""

from __future__ import annotations

import pytest

from omnidraft.decoding.drafting import FixedLength
from omnidraft.decoding.events import Finished, Round, Token
from omnidraft.decoding.pick import GreedyPicker
from omnidraft.decoding.speculation import Speculation
from omnidraft.prompting.grammar import gbnf_grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys

GRAMMARS = [
    'root ::= "abcabc" [abc] "cab" [ab]+ "c"',
    'root ::= ("aa" [abc] "cc")+',
    'root ::= "a" root "bb" | "c"',
    "root ::= [abc]+",
]


def answer(text, sampling, seed, drafted):
    """The events of an answer under a grammar; drafted: None plain, False forced alone, True the drafter behind it."""
    constraint = GrammarState(gbnf_grammar(text), toys.TARGET)
    speculation = None
    if drafted is not None:
        toy = toys.speculation(toys.drafter(), toys.translator())
        speculation = Speculation(toy.drafting if drafted else None, FixedLength(4), constraint=constraint)
    return list(toys.decoded(toys.target(), toys.PROMPT, sampling, seed, speculation, constraint=constraint))


def ids(events) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


@pytest.mark.parametrize("text", GRAMMARS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_text_is_the_same_however_it_is_proposed(text, temperature):
    sampling = SamplingSettings.unfiltered(temperature=temperature, max_tokens=24)
    for seed in range(12):
        plain = ids(answer(text, sampling, seed, None))
        assert ids(answer(text, sampling, seed, False)) == plain
        assert ids(answer(text, sampling, seed, True)) == plain


def test_what_is_forced_takes_no_pass_of_its_own():
    sampling = SamplingSettings.unfiltered(temperature=1.0, max_tokens=24)
    events = answer(GRAMMARS[0], sampling, 3, False)
    plain = answer(GRAMMARS[0], sampling, 3, None)
    passes = [sum(isinstance(event, Round) for event in each) for each in (events, plain)]
    assert passes[0] < passes[1] / 1.3
    forced = [event for event in events if isinstance(event, Token) and event.origin == "forced"]
    statistics = next(event.statistics for event in events if isinstance(event, Finished))
    assert statistics.forced_accepted == len(forced) == statistics.origins["forced"] > 2
    assert statistics.by_drafter == (0, 0, 0)
    assert statistics.forced == statistics.forced_tested == statistics.forced_accepted  # none of it was a guess


def test_the_drafter_drafts_behind_what_is_forced():
    sampling = SamplingSettings.unfiltered(temperature=0.0, max_tokens=24)
    rounds = [event for text in GRAMMARS for event in answer(text, sampling, 1, True) if isinstance(event, Round)]
    assert any(0 < done.forced < done.proposed for done in rounds)


def test_the_drafter_says_nothing_forbidden():
    constraint = GrammarState(gbnf_grammar('root ::= "ab" [b]+ "c"'), toys.TARGET)
    drafting = toys.speculation(toys.drafter(), toys.translator()).drafting
    drafting.expect([toys.TARGET.pieces.index(b"ab")])
    drafting.draft(FixedLength(6), GreedyPicker(), 2, constraint)
    free = toys.speculation(toys.drafter(), toys.translator()).drafting
    free.expect([toys.TARGET.pieces.index(b"ab")])
    free.draft(FixedLength(6), GreedyPicker(), 2)
    eog = toys.DRAFTER.eos
    assert drafting.drafted
    assert constraint.follows(toys.DRAFTER.decode(drafting.pieces), drafting.pieces[-1] == eog)
    assert not constraint.follows(toys.DRAFTER.decode(free.pieces), free.pieces[-1] == eog)
