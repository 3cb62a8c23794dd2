"""The drafter's context: what each outcome of a round leaves in it, and what the drafter has to read next."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding.drafting import Drafting, FixedLength
from omnidraft.decoding.pick import GreedyPicker
from omnidraft.decoding.verify import Emission, Verdict
from tests.decoding import toys
from tests.fakes import ToyModel, toy_vocabulary

A, B, C, AB, ABC, END = range(6)
CA = 3  # in MERGING, which the target can only spell as c, a
MERGING = toy_vocabulary([b"a", b"b", b"c", b"ca"], padding=2)


def drafting_of(script, prompt=(A,), vocabulary=MERGING, **more) -> tuple[Drafting, ToyModel]:
    """A drafter that says `script` behind the prompt whatever is verified."""

    def logits(history):
        row = np.full(vocabulary.size, -1.0)
        row[vocabulary.eos + 1 :] = 99.0  # padding is tempting
        at = len(history) - len(prompt)
        row[script[at] if at < len(script) else A] = 5.0
        return row

    model = ToyModel(vocabulary, logits, **more)
    return Drafting(model, toys.translator_of(vocabulary), list(prompt)), model


def drawn(drafting: Drafting, length: int) -> list[int]:
    drafting.draft(FixedLength(length), GreedyPicker(), 1)
    return drafting.pieces


def settle(drafting: Drafting, emitted, accepted: int) -> None:
    proposals = drafting.translator.segment(drafting.pieces)
    assert [p.target_id for p in proposals[:accepted]] == list(emitted[:accepted]), "no such outcome"
    verdict = Verdict([Emission(t, None) for t in emitted], accepted, accepted)
    drafting.settle(verdict, proposals)


def test_it_draws_what_the_drafter_says_and_never_padding():
    drafting, _ = drafting_of([C, B, CA])
    assert drawn(drafting, 3) == [C, B, CA]


def test_it_stops_at_the_drafters_end_of_generation():
    drafting, model = drafting_of([C, MERGING.eos, A, A])
    assert drawn(drafting, 4) == [C, MERGING.eos]
    assert model.tokens == [A, C]


def test_accepted_pieces_stay_as_drafted_and_the_targets_own_token_is_spelled():
    drafting, model = drafting_of([C, A, B, C])
    drawn(drafting, 4)  # proposes c, abc
    settle(drafting, [C, ABC, AB], accepted=2)
    assert drafting.context == [A, C, A, B, C, A, B]
    assert drafting.pieces == []
    drawn(drafting, 1)
    assert model.passes[-1] == (3, 1)  # the last piece had not been read; the bonus token's two pieces


def test_a_rejection_rewinds_no_further_than_the_first_piece_that_did_not_stand():
    drafting, model = drafting_of([C, C, B, B])
    drawn(drafting, 4)
    settle(drafting, [C, AB], accepted=1)
    assert drafting.context == [A, C, A, B]
    drawn(drafting, 1)
    assert model.tokens == [A, C, A, B]
    assert model.passes[-1] == (2, 1)


def test_a_split_that_was_fully_accepted_stays_one_piece():
    drafting, _ = drafting_of([CA, B])
    drawn(drafting, 2)
    settle(drafting, [C, A, B, C], accepted=3)
    assert drafting.context == [A, CA, B, C]


@pytest.mark.parametrize(("own", "spelled"), [(B, [B]), (ABC, [A, B, C])])
def test_a_half_accepted_split_is_spelled_anew(own, spelled):
    drafting, model = drafting_of([B, CA, B])
    drawn(drafting, 3)
    settle(drafting, [B, C, own], accepted=2)
    assert drafting.context == [A, B, C, *spelled]
    drawn(drafting, 1)
    assert model.tokens == [A, B, C, *spelled]


def test_a_control_token_of_the_target_adds_nothing():
    drafting, _ = drafting_of([C, C])
    drawn(drafting, 2)
    settle(drafting, [C, END], accepted=1)
    assert drafting.context[:2] == [A, C]
    assert drafting.context[2:] == list(drafting.translator.drafter_ids(END))


def test_a_full_context_is_cut_to_its_newer_half_and_drafting_goes_on():
    prompt = [A] * 30
    drafting, model = drafting_of([B] * 99, prompt=prompt, n_ctx=32)
    for _ in range(40):
        pieces = drawn(drafting, 4)
        assert len(pieces) == 4
        settle(drafting, [toys.TARGET.by_bytes[b"c"]], accepted=0)
        assert len(model.tokens) <= 32
    assert set(drafting.context) == {C}


@pytest.mark.parametrize("length", [16, 31, 33, 64])
def test_a_draft_longer_than_half_the_context_neither_overflows_nor_reads_it_again_and_again(length):
    drafting, model = drafting_of([B] * 9999, prompt=[A] * 50, n_ctx=64)
    rounds = 40
    for _ in range(rounds):
        pieces = drawn(drafting, length)
        assert min(length, 16) <= len(pieces) <= length
        assert len(model.tokens) <= 64
        settle(drafting, [toys.TARGET.by_bytes[b"c"]], accepted=0)
    read, drafted = sum(ids for ids, _ in model.passes), sum(rows for _, rows in model.passes)
    assert read - drafted < rounds * 8, "what a round leaves is read with the next draft, and half the context at times"


@pytest.mark.parametrize("accepted", [0, 5, 40])
def test_more_expected_than_fits_is_not_drafted_behind(accepted):
    drafting, model = drafting_of([B] * 9999, prompt=[A] * 10, n_ctx=64)
    proposals = drafting.expect([C] * 70)
    assert drawn(drafting, 8) == [C] * 70
    verdict = Verdict([Emission(C, None)] * (accepted + 1), accepted, accepted)
    drafting.settle(verdict, proposals)
    assert len(drawn(drafting, 8)) == 8
    assert len(model.tokens) <= 64


def test_the_first_token_gets_the_space_the_drafter_expects():
    vocabulary = toy_vocabulary([b"a", b"b", b"c", b" a", b" "], padding=1)
    for said, expected in ((A, [3]), (B, [4, B])):
        for virtual in (True, False):
            model = ToyModel(vocabulary, lambda history: np.zeros(vocabulary.size))
            drafting = Drafting(model, toys.translator_of(vocabulary), [C], virtual_space=virtual)
            verdict = Verdict([Emission(said, None), Emission(said, None)])
            drafting.settle(verdict, [])
            assert drafting.context == [C, *(expected if virtual else [said]), said]
