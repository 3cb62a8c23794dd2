"""The decoding loop on toys: drafters that are never, always and sometimes right; stops, limits, interruptions."""

from __future__ import annotations

import itertools
from time import perf_counter

import numpy as np
import pytest

from omnidraft.decoding.drafting import Drafting, FixedLength
from omnidraft.decoding.events import Finished, Prefill, Round, Token
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.speculation import Speculation
from omnidraft.decoding.verify import verify
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys
from tests.fakes import ToyModel, random_logits, toy_vocabulary

TARGET, DRAFTER, PROMPT = toys.TARGET, toys.DRAFTER, toys.PROMPT
GREEDY = SamplingSettings(temperature=0.0, max_tokens=24)


def scripted(vocabulary, script, start: int, **more) -> ToyModel:
    """A model that says `script` behind `start` ids, whatever these are; behind the script it repeats id 0."""

    def logits(history):
        at = len(history) - start
        row = np.zeros(vocabulary.size)
        row[script[at] if at < len(script) else 0] = 10.0
        return row

    return ToyModel(vocabulary, logits, **more)


def finished(events) -> Finished:
    (last,) = [e for e in events if isinstance(e, Finished)]
    assert events[-1] is last
    return last


def ids(events) -> list[int]:
    return [e.id for e in events if isinstance(e, Token)]


def plain_ids(sampling=GREEDY, seed=0, **more) -> list[int]:
    return ids(list(toys.decoded(toys.target(**more), PROMPT, sampling, seed)))


def spelled(answer) -> list[int]:
    translate = toys.translator()
    return [piece for t in answer for piece in translate.drafter_ids(t)]


A, B, C, AB, ABC, END = range(6)
SCRIPT = [C, *[ABC, C] * 12]  # four pieces always close a token, so that a right draft is never cut inside one


def ending(script) -> ToyModel:
    return scripted(TARGET, script, len(PROMPT))


def always_right() -> ToyModel:
    return scripted(DRAFTER, spelled(SCRIPT), len(PROMPT))


def never_right() -> ToyModel:
    return scripted(DRAFTER, [(piece + 1) % 3 for piece in spelled(SCRIPT)], len(PROMPT))


def on_script(drafter, length=4, sampling=GREEDY, **more):
    """The scripted target's answer with `drafter`."""
    speculation = toys.speculation(drafter, toys.translator(), length)
    return list(toys.decoded(scripted(TARGET, SCRIPT, len(PROMPT), **more), PROMPT, sampling, 0, speculation))


def speculative(drafter, length=4, sampling=GREEDY, seed=0, **more):
    speculation = toys.speculation(drafter, toys.translator(), length)
    return list(toys.decoded(toys.target(**more), PROMPT, sampling, seed, speculation))


def test_plain_decoding_is_the_same_call_without_a_drafter():
    target = toys.target()
    events = list(toys.decoded(target, PROMPT, GREEDY, 0))
    s = finished(events).statistics
    assert s.tokens == s.target_passes == GREEDY.max_tokens
    assert s.tokens_per_pass == 1
    assert s.rounds == s.drafted == s.proposed == s.tested == s.accepted == 0
    assert s.acceptance_rate is None
    assert s.origins == {"target": s.tokens, "direct": 0, "ngram": 0, "split": 0, "lookup": 0, "forced": 0}
    assert target.passes == [(1, 0)] + [(1, 1)] * s.tokens


def test_a_drafter_that_is_always_right_saves_passes():
    events = on_script(always_right())
    s = finished(events).statistics
    assert ids(events) == SCRIPT[:24]
    assert s.accepted == s.tested == s.proposed > 0
    assert s.acceptance_rate == 1
    assert s.tokens_per_pass > 2
    assert min(s.origins["ngram"], s.origins["direct"]) > 0


def test_a_drafter_that_is_never_right_costs_no_token():
    events = on_script(never_right())
    s = finished(events).statistics
    assert ids(events) == SCRIPT[:24]
    assert s.accepted == 0
    assert s.proposed > s.tested > 0
    assert s.tokens_per_pass == 1
    assert s.origins["target"] == s.tokens
    assert all(e.emitted == 1 for e in events if isinstance(e, Round))


def test_the_counters_fit_together():
    for seed, length in itertools.product(range(30), (1, 2, 5)):
        sampling = SamplingSettings(temperature=1.0, max_tokens=20)
        events = speculative(toys.drafter(), length, sampling, seed)
        s = finished(events).statistics
        rounds = [e for e in events if isinstance(e, Round)]
        tokens = [e for e in events if isinstance(e, Token)]
        assert s.accepted <= s.tested <= s.proposed
        assert sum(s.origins.values()) == s.tokens == len(tokens) == sum(r.emitted for r in rounds)
        assert [t.position for t in tokens] == list(range(s.tokens))
        assert s.target_passes == len(rounds) >= s.rounds
        assert s.accepted == s.tokens - s.origins["target"]
        for name in ("drafted", "proposed", "tested", "accepted", "draft", "translate", "verify", "other"):
            assert getattr(s, name) == pytest.approx(sum(getattr(r, name) for r in rounds))


def test_the_seconds_add_up_to_the_time_that_passed():
    speculation = toys.speculation(toys.drafter(), toys.translator())
    answer = toys.decoded(toys.target(), PROMPT, SamplingSettings(temperature=1.0, max_tokens=200), 0, speculation)
    start = perf_counter()
    events = list(answer)
    passed = perf_counter() - start
    s = finished(events).statistics
    parts = [s.prefill, s.draft, s.translate, s.verify, s.other]
    assert min(parts) >= 0
    assert passed / 2 < sum(parts) <= passed
    assert s.tokens_per_second == pytest.approx(s.tokens / (sum(parts) - s.prefill))


class CopyAll(FixedLength):
    """Proposes all that the lookup finds; the drafter never drafts."""

    def begin(self, behind, match):
        return self.longest if match.length else 0

    def more(self, pieces):
        return False


def test_nothing_is_accepted_past_the_end():
    """The lookup proposes a passage that goes on behind the end of generation, and the target would go on as well."""
    script = [A, B, C, A, B, C, END, C, C, C]
    lookup = SuffixLookup([script])
    lookup.begin(PROMPT)
    speculation = Speculation(None, CopyAll(8), lookup=lookup)
    events = list(toys.decoded(ending(script), PROMPT, GREEDY, 0, speculation))
    assert finished(events).statistics.origins["lookup"] > 0
    assert ids(events) == script[:7]
    assert finished(events).reason == "stop"


def test_the_drafter_may_propose_the_end_and_drafts_nothing_behind_it():
    script = [A, B, END]
    drafter = scripted(DRAFTER, [A, B, DRAFTER.eos, C, C], len(PROMPT))
    events = list(toys.decoded(ending(script), PROMPT, GREEDY, 0, toys.speculation(drafter, toys.translator(False))))
    assert ids(events) == script
    s = finished(events).statistics
    assert (s.drafted, s.proposed, s.accepted) == (2, 2, 2)


@pytest.mark.parametrize("stop", ["ca", "abc", "bca"])
def test_a_stop_string_ends_the_answer_and_is_not_shown(stop):
    script = [A, B, C, C, A, B, C, A, B, B]
    sampling = SamplingSettings(temperature=0.0, max_tokens=24, stop=("zz", stop))
    drafter = scripted(DRAFTER, script, len(PROMPT))
    for speculation in (None, toys.speculation(drafter, toys.translator(False), 6)):
        events = list(toys.decoded(ending(script), PROMPT, sampling, 0, speculation))
        shown = "".join(e.text for e in events if isinstance(e, (Token, Finished)))
        whole = TARGET.decode(script).decode()
        assert shown == whole[: whole.index(stop)]
        assert finished(events).reason == "stop_string"
        assert TARGET.decode(ids(events)).decode() == whole[: whole.index(stop) + len(stop)]


def test_what_only_began_like_a_stop_string_is_shown_at_the_end():
    events = list(toys.decoded(ending([B, A, END]), PROMPT, SamplingSettings(temperature=0.0, stop=("ac",)), 0))
    assert [e.text for e in events if isinstance(e, Token)] == ["b", "", ""]
    assert finished(events).text == "a"


@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_max_tokens_is_exact_however_much_is_accepted(limit):
    for drafter in (always_right(), never_right()):
        events = on_script(drafter, 7, SamplingSettings(temperature=0.0, max_tokens=limit))
        assert ids(events) == SCRIPT[:limit]
        assert finished(events).reason == "length"


@pytest.mark.parametrize("room", [1, 2, 3, 7])
def test_the_answer_ends_where_the_context_does(room):
    for drafter in (always_right(), never_right()):
        events = on_script(drafter, 6, n_ctx=len(PROMPT) + room)
        assert finished(events).reason == "context"
        assert ids(events) == SCRIPT[: room + 1]  # the last token need not be read


def test_a_penalty_sees_verified_tokens_only():
    """Proposals are in the target's pass, but the penalty at each row looks at what stands before it."""
    seen = []

    class Watching(Sampler):
        def prepare(self, row, recent):
            seen.append(list(recent))
            return super().prepare(row, recent)

    settings = SamplingSettings(temperature=0.0, repeat_penalty=1.5)
    rows = np.zeros((4, TARGET.size), np.float32)
    for row, best in zip(rows, (A, B, C, A), strict=True):
        row[best] = 9.0
    recent = [C]
    verdict = verify(rows, [A, A, B], Watching(settings, TARGET, 0), recent, 0, TARGET.eog.__contains__)
    assert [e.id for e in verdict.emitted] == [A, B]
    assert seen == [[C], [C, A]]
    assert recent == [C, A, B]


class Checked(ToyModel):
    """A drafter that holds its cache against the context it should be reading."""

    drafting: Drafting

    def extend(self, ids, rows):
        out = super().extend(ids, rows)
        assert self.tokens == [*self.drafting.context, *self.drafting.pieces]
        return out


MERGING = toy_vocabulary([b"a", b"b", b"c", b"ca"], padding=1)


@pytest.mark.parametrize("vocabulary", [DRAFTER, MERGING], ids=["letters", "with a piece that splits"])
def test_the_drafter_reads_what_was_verified_after_every_round(vocabulary):
    translate = toys.translator_of(vocabulary)
    for seed in range(30):
        drafter = Checked(vocabulary, random_logits(vocabulary, 2))
        speculation = toys.speculation(drafter, translate, 4)
        drafter.drafting = speculation.drafting
        said = []
        sampling = SamplingSettings(temperature=1.0, max_tokens=24)
        for event in toys.decoded(toys.target(), PROMPT, sampling, seed, speculation):
            if isinstance(event, Token):
                said.append(event.id)
            elif isinstance(event, Round):
                context = speculation.drafting.context
                assert context[: len(PROMPT)] == PROMPT
                assert vocabulary.decode(context[len(PROMPT) :]) == TARGET.decode(said)


def _speculating(target, drafter, prompt, sampling):
    drafting = Drafting(drafter, toys.translator(), prompt)
    return toys.decoded(target, prompt, sampling, 5, Speculation(drafting, FixedLength(3)))


@pytest.mark.parametrize("who", ["target", "drafter"])
def test_a_stop_in_the_middle_of_a_pass_ends_the_answer_and_harms_nothing(who):
    sampling = SamplingSettings(temperature=1.0, max_tokens=12)
    fresh = ids(list(_speculating(toys.target(), toys.drafter(), PROMPT, sampling)))
    for at in range(8):
        models = {"target": toys.target(), "drafter": toys.drafter()}
        models[who].abort_at = at
        events = list(_speculating(models["target"], models["drafter"], PROMPT, sampling))
        assert finished(events).reason == "cancelled"
        assert ids(events) == fresh[: len(ids(events))]
        models[who].abort_at = None
        again = list(_speculating(models["target"], models["drafter"], PROMPT, sampling))
        assert ids(again) == fresh


def test_a_stop_is_noticed_between_the_batches_of_a_long_prompt():
    target = toys.target()
    prompt = [A, B, C] * 10
    events = []
    for event in toys.decoded(target, prompt, GREEDY, 0, cancelled=lambda: len(events) >= 3):
        events.append(event)
    assert [type(e) for e in events] == [Prefill, Prefill, Prefill, Finished]
    assert finished(events).reason == "cancelled"
    assert target.tokens == prompt[: 2 * target.n_batch]


def test_a_model_that_cannot_rewind_starts_over_where_the_conversation_was_changed():
    target = toys.target(can_rewind=False)
    first = ids(list(toys.decoded(target, PROMPT, GREEDY, 0)))
    assert first == plain_ids()
    continued = finished(list(toys.decoded(target, [*PROMPT, *first, C], GREEDY, 0))).statistics
    assert continued.reused_tokens > 0
    changed = finished(list(toys.decoded(target, [*PROMPT, C], GREEDY, 0))).statistics
    assert changed.reused_tokens == 0


def test_every_token_carries_the_targets_own_top_candidates():
    events = list(
        toys.decoded(toys.target(), PROMPT, SamplingSettings(temperature=0.7, top_k=2, max_tokens=8), 3, capture=3)
    )
    history = tuple(PROMPT)
    for token in (e for e in events if isinstance(e, Token)):
        row = toys.target()._row(history)[:6].astype(float)
        p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert token.candidates.ids.tolist() == np.argsort(-p)[:3].tolist()
        np.testing.assert_allclose(np.exp(token.candidates.logprobs), np.sort(p)[::-1][:3], rtol=1e-4)
        assert token.candidates.rest == pytest.approx(1 - np.sort(p)[::-1][:3].sum(), abs=1e-5)
        history = (*history, token.id)
