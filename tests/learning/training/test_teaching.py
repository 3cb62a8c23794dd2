"""What a record teaches at each drafter position: spans, splits, spaces and windows."""

import numpy as np
import pytest

from omnidraft.learning.training import steps
from omnidraft.learning.training.teaching import IN_A_ROW, TIMES, collate, teach, windows
from tests.learning import toy

TABLE = toy.table()


def as_dict(outcomes, row):
    return {
        tuple(i for i in ids if i >= 0): float(p)
        for ids, p in zip(outcomes.ids[row].tolist(), outcomes.p[row], strict=True)
        if p > 0
    }


def test_a_split_piece_is_credited_with_the_text_it_spells():
    p = toy.random_p(np.random.default_rng(2), 3)
    record = toy.record([1, 2, 8], p, pieces=np.array([7]), spans=np.array([0, 0, 1]))  # b c d spelled by "bcd"
    t = teach(record, TABLE)
    assert (t.token.tolist(), t.split.tolist(), t.length.tolist()) == ([0], [True], [1])
    credit = p[0, 1] * p[1, 2] * p[2, 8]
    got = as_dict(t.node, 0)
    assert got[(7,)] == pytest.approx(credit, rel=1e-3)
    assert got[(2,)] == pytest.approx(p[0, 1] + p[0, 5] - credit, rel=1e-3)  # b and bc begin with b


def test_the_first_position_uses_its_own_expansions():
    p = toy.random_p(np.random.default_rng(5), 1)
    order = np.argsort(-p[0])[:12]
    first = tuple((6,) if t == 0 else toy.EXPANSIONS[t] for t in order)  # a, behind a space, is written d
    record = toy.record([0], p, 12, pieces=np.array([6]), spans=np.array([1]), first=first, leading_space=True)
    t = teach(record, TABLE)
    assert as_dict(t.node, 0)[(6,)] == pytest.approx(p[0, 0] + p[0, 8] + p[0, 9], abs=1e-4)


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


def test_a_token_is_of_a_loop_whose_last_pieces_all_stood_twice_in_prompt_or_answer():
    rng = np.random.default_rng(9)
    targets = rng.choice([0, 1, 3, 4, 5, 7], 120)
    targets[60:75] = targets[80:95] = targets[20:35]
    record = toy.record(targets.tolist(), toy.random_p(rng, 120), 4, prompt=np.array([1, 2] * IN_A_ROW + [3]))
    text = [*record.prompt.tolist(), *record.pieces.tolist()]
    runs = [tuple(text[max(0, i + 1 - IN_A_ROW) : i + 1]) for i in range(len(text))]
    again = [len(run) == IN_A_ROW and runs[:i].count(run) >= TIMES for i, run in enumerate(runs)]
    ends = len(record.prompt) + np.cumsum(record.spans)
    wanted = [all(again[end - n : end]) for end, n in zip(ends, record.spans, strict=True)]
    assert 8 <= sum(wanted) < 20
    assert teach(record, TABLE).looped.tolist() == np.repeat(wanted, record.spans).tolist()


def test_of_a_loop_no_more_is_learned_than_its_beginning():
    rng = np.random.default_rng(9)
    loop = toy.record([8] * 200, toy.random_p(rng, 200), 4)
    other = toy.record([8, 1, 0, 2, 7, 4, 3, 5, 6, 9], toy.random_p(rng, 10), 4)
    parts = [*windows(loop, TABLE), *windows(other, TABLE)]
    learned = steps.learned(parts, rng)
    begin = IN_A_ROW + TIMES - 1
    assert sum(len(batch.row) for batch in learned) == begin + len(other.pieces)
    assert not any(batch.positions.looped.any() for batch in learned)
    assert collate(parts).positions.looped.sum() == 200 - begin
