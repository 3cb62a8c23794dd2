"""Who proposes in a round: a policy at rest is not asked for more than that, but nothing that costs nothing is lost."""

from __future__ import annotations

from omnidraft.decoding.drafting import PLAIN, Drafting, FixedLength
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.pick import GreedyPicker
from omnidraft.decoding.speculation import NOTHING, Speculation
from omnidraft.decoding.verify import Emission, Verdict
from tests.decoding import toys

A, B, C = range(3)
PICKER = GreedyPicker()


class Plain(FixedLength):
    """Rests: is always plain, but for copies where it is asked."""

    rests = True
    begun = 0

    def begin(self, behind, match):
        self.begun += 1
        return len(match.ids) or PLAIN


def speculation(policy: FixedLength, lookup: SuffixLookup | None = None) -> Speculation:
    return Speculation(Drafting(toys.drafter(), toys.translator(), toys.PROMPT), policy, lookup=lookup)


def test_a_round_at_rest_with_nothing_to_copy_is_not_even_begun():
    policy = Plain(4)
    assert speculation(policy, SuffixLookup()).guess(PICKER, 0, 8) is NOTHING
    assert speculation(policy).guess(PICKER, 0, 8) is NOTHING
    assert policy.begun == 0


def test_a_passage_to_copy_ends_a_rest_at_once():
    policy = Plain(4)
    made = speculation(policy, SuffixLookup())
    for said in (A, B, C, A):
        assert made.guess(PICKER, 0, 8) is NOTHING
        made.settle(Verdict(emitted=[Emission(said, None)]), [])
    assert policy.begun == 0
    assert [p.target_id for p in made.guess(PICKER, 4, 8).proposals] == [B, C]


def test_copies_are_proposed_while_drafting_does_not_pay():
    lookup = SuffixLookup([[A, B, C, C, B]])
    lookup.begin(toys.PROMPT)
    lookup.extend([A, B, C])
    guess = speculation(Plain(4), lookup).guess(PICKER, 3, 8)
    assert [(p.target_id, p.origin) for p in guess.proposals] == [(C, "lookup"), (B, "lookup")]
    assert guess.drafted == 0
