"""What a record teaches at each drafter position: spans, splits, spaces and windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.training.alignment import teach
from omnidraft.learning.training.batches import batches, collate, windows
from tests.learning import toy

TABLE = toy.table()


def as_dict(outcomes, row):
    return {
        tuple(i for i in ids if i >= 0): float(p)
        for ids, p in zip(outcomes.ids[row].tolist(), outcomes.p[row], strict=True)
        if p > 0
    }


def test_spans_become_token_depth_and_length():
    t = teach(toy.record([0, 4, 12, 7], toy.random_p(np.random.default_rng(0), 4)), TABLE)
    assert t.piece.tolist() == [1, 4, 3, 3, 4]
    assert t.token.tolist() == [0, 1, 1, 3, 3]
    assert t.depth.tolist() == [0, 0, 1, 0, 1]
    assert t.length.tolist() == [1, 2, 2, 2, 2]
    assert not t.split.any()


def test_inside_a_token_only_tokens_through_the_same_pieces_teach():
    p = toy.random_p(np.random.default_rng(1), 1)
    t = teach(toy.record([7], p), TABLE)  # cab = c + ab
    mass = p[0, 6] + p[0, 7]  # ca and cab go through c and are longer; c itself ends there
    assert as_dict(t.node, 1) == pytest.approx({(1,): p[0, 6] / mass, (4,): p[0, 7] / mass}, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 13))
def test_every_distribution_sums_to_one(seed, k):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, len(toy.TARGET), 12).tolist()
    t = teach(toy.record(targets, toy.random_p(rng, 12), k), TABLE)
    for outcomes in (t.node, t.direct):
        assert np.allclose(outcomes.p.sum(1) + outcomes.other, 1, atol=1e-5)
        assert ((outcomes.ids[..., 0] >= 0) >= (outcomes.p > 0)).all()


def test_the_rest_reaches_a_node_in_proportion_to_the_tokens_that_pass_it():
    p = np.full((1, 13), 0.02 / 12)
    p[0, 7] = 0.98
    t = teach(toy.record([7], p, k=1), TABLE)
    # 12 tokens have expansions; behind c, cab is captured and only ca of the 11 others passes
    share = 0.02 / 11
    assert float(t.node.other[1]) == pytest.approx(share / (0.98 + share), rel=1e-3)


def test_a_split_piece_is_credited_with_the_text_it_spells():
    p = toy.random_p(np.random.default_rng(2), 3)
    record = toy.record([1, 2, 8], p, pieces=np.array([7]), spans=np.array([0, 0, 1]))  # b c d spelled by "bcd"
    t = teach(record, TABLE)
    assert (t.token.tolist(), t.split.tolist(), t.length.tolist()) == ([0], [True], [1])
    credit = p[0, 1] * p[1, 2] * p[2, 8]
    got = as_dict(t.node, 0)
    assert got[(7,)] == pytest.approx(credit, rel=1e-3)
    assert got[(2,)] == pytest.approx(p[0, 1] + p[0, 5] - credit, rel=1e-3)  # b and bc begin with b


def test_pieces_with_the_same_bytes_share_one_outcome():
    t = teach(toy.record([0], toy.random_p(np.random.default_rng(4), 1)), TABLE)
    assert (1, 5) in as_dict(t.direct, 0)
    assert TABLE.aliases[5].tolist()[:2] == [5, 1]


def test_the_first_position_uses_its_own_expansions():
    p = toy.random_p(np.random.default_rng(5), 1)
    order = np.argsort(-p[0])[:12]
    first = tuple((6,) if t == 0 else toy.EXPANSIONS[t] for t in order)  # a, behind a space, is written d
    record = toy.record([0], p, 12, pieces=np.array([6]), spans=np.array([1]), first=first, leading_space=True)
    t = teach(record, TABLE)
    assert as_dict(t.node, 0)[(6,)] == pytest.approx(p[0, 0] + p[0, 8] + p[0, 9], abs=1e-4)


def test_an_uncaptured_position_teaches_nothing_but_its_piece():
    record = toy.record([0], toy.random_p(np.random.default_rng(6), 1))
    empty = np.zeros(0)
    record = type(record)(
        **{**vars(record), "counts": np.zeros(1, int), "ids": empty.astype(int), "logprobs": empty, "rest": np.ones(1)}
    )
    t = teach(record, TABLE)
    assert not t.taught[0]
    assert t.node.other[0] == 1


@pytest.mark.parametrize("longest", [16, 64, 512])
def test_windows_teach_every_piece_once_in_its_own_context(longest):
    rng = np.random.default_rng(8)
    targets = rng.integers(0, 12, 150).tolist()
    record = toy.record(targets, toy.random_p(rng, 150), 4, prompt=np.arange(40) % 9)
    whole = np.concatenate([record.prompt, record.pieces])
    at = len(record.prompt)
    for window in windows(record, TABLE, longest):
        assert len(window.ids) <= longest
        n = window.positions
        assert np.array_equal(window.ids, whole[at + n - len(window.ids) : at + n])
        assert np.array_equal(window.ids[-n:], window.teaching.piece)
        assert len(window.ids) > n  # something to predict the first one from
        assert window.teaching.depth[0] == 0
        at += n
    assert at == len(whole)


def test_batches_hold_every_window_once_and_keep_tokens_apart():
    rng = np.random.default_rng(9)
    parts = []
    for n in (3, 30, 7, 18):
        targets = rng.integers(0, 12, n).tolist()
        parts += windows(toy.record(targets, toy.random_p(rng, n), 4), TABLE, 32)
    made = list(batches(parts, 64))
    assert sum(len(b.positions.piece) for b in made) == sum(w.positions for w in parts)
    for b in made:
        assert b.ids.numel() <= 64
        assert (b.ids[b.row, b.column + 1] == b.positions.piece).all()
        assert int(b.positions.token.max()) < b.tokens
    one = collate(parts[:2])
    assert len(set(one.positions.token[one.row == 0].tolist()) & set(one.positions.token[one.row == 1].tolist())) == 0


def test_a_table_survives_the_disk(tmp_path):
    TABLE.save(tmp_path / "table.npz")
    back = ExpansionTable.load(tmp_path / "table.npz")
    assert [back[t] for t in range(13)] == toy.EXPANSIONS
    assert back.direct.tolist() == toy.DIRECT
    assert back.target_fingerprint == "toy-t"
