"""Copies from earlier text: the longest match, the majority of equals, never the text's own end, bounded."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.decoding import lookup
from omnidraft.decoding.lookup import NO_MATCH, Match, SuffixLookup


@pytest.mark.parametrize(("texts", "said", "expected"), [
    ([[1, 2, 3, 4, 5, 6], [9, 2, 3, 4, 7, 8]], [1, 2, 3, 4], Match([5, 6], 4, own=False)),
    # the newest of equal matches
    ([[5, 2, 3, 4, 5], [6, 2, 3, 4, 7]], [2, 3, 4], Match([7], 3, own=False)),
    # of equal matches the most frequent continuation, id by id
    ([[5, 2, 3, 4, 6, 1], [6, 2, 3, 4, 6, 8], [7, 2, 3, 4, 6, 8], [8, 2, 3, 4, 7, 7]], [2, 3, 4],
     Match([6, 8], 3, own=False)),
    # a longer match outweighs any number of shorter ones
    ([[1, 2, 3, 4, 5], [6, 2, 3, 4, 7], [8, 2, 3, 4, 7], [9, 2, 3, 4, 7]], [1, 2, 3, 4], Match([5], 4, own=False)),
])  # fmt: skip
def test_proposes_what_followed_the_longest_match(texts, said, expected):
    found = SuffixLookup(texts)
    found.begin([0])
    found.extend(said)
    assert found.propose(len(expected.ids)) == expected


def test_says_whether_the_answer_repeats_itself_or_what_was_there_before_it():
    found = SuffixLookup([[1, 2, 3, 4]])
    found.begin([5, 6, 7, 8])
    found.extend([9, 1, 2, 3])
    assert found.propose(1) == Match([4], 3, own=False)  # another text
    found.extend([8, 5, 6, 7])
    assert found.propose(1) == Match([8], 3, own=False)  # what led into the answer
    found.extend([0, 0, 9, 1, 2, 3])
    assert found.propose(1) == Match([8], 4, own=True)


def test_nothing_to_copy_gives_nothing():
    found = SuffixLookup()
    assert found.propose(4) == NO_MATCH
    found.begin([1, 2, 3])
    assert found.propose(4) == NO_MATCH


def test_a_growing_conversation_is_held_once():
    found = SuffixLookup()
    for n in range(10, 60, 10):
        found.begin(list(range(n)))
    assert sum(len(text) for text in found._texts) == 50


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(lookup, "_MOST_IDS", 1_000)
    found = SuffixLookup()
    for n in range(100):
        found.begin([n * 1000 + i for i in range(100)])
    assert sum(len(text) for text in found._texts) <= 1_100
    assert found.propose(1) == NO_MATCH


@patch.object(lookup, "_TRIED", 1000)
@given(st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=4))
def test_equals_a_brute_force_search(texts):
    found = SuffixLookup()
    begun = set()  # (text, where an answer began): a passage that goes on there is not found
    for text in [*texts[:-1], texts[-1][:1]]:
        found.begin(text)
        begun.add((len(found._texts) - 1, found._begun))
    found.extend(texts[-1][1:])
    copied, matched, _, agreed, _ = found.propose(4)
    current = found._texts[-1]
    best, said = 0, []
    for number, text in enumerate(found._texts):
        for end in range(1, len(text)):
            n = 0
            while n < min(32, end, len(current) - found._begun) and text[end - 1 - n] == current[-1 - n]:
                n += 1
            if n and (number, end) not in begun:
                said = [*(said if n == best else []), text[end : end + min(4, 2 * n)]] if n >= best else said
                best = max(best, n)
    assert matched == best
    if matched:
        assert copied
        heads = [{tuple(ids[: n + 1]) for ids in said} for n in range(len(copied))]
        alike = next((n for n, head in enumerate(heads) if len(head) > 1), len(copied))
        assert agreed == (alike if len(said) > 1 else 0)


def test_agreeing_on_what_leads_into_an_answer_means_nothing():
    found = SuffixLookup([[7, 8, 9, 1, 2, 3]])
    found.begin([5, 7, 8, 9])
    assert found.propose(4) == NO_MATCH
    found.extend([1])
    assert found.propose(4).length == 1


def test_ids_that_all_passages_go_on_with_are_told_from_the_newest_ones_alone():
    found = SuffixLookup([[1, 2, 3, 5, 6, 7], [1, 2, 3, 5, 6, 8]])
    found.begin([9])
    found.extend([1, 2, 3])
    match = found.propose(4)
    assert (list(match.ids[:2]), match.agreed) == ([5, 6], 2)
    found = SuffixLookup([[1, 2, 3, 5, 6, 7]])
    found.begin([9])
    found.extend([1, 2, 3])
    assert found.propose(4).agreed == 0  # one text alone agrees with nobody


def test_twice_as_many_ids_are_copied_as_agree():
    found = SuffixLookup([[*range(200)]])
    found.begin([300])
    for said, copied in ((0, 2), (1, 4), (2, 6)):
        found.append(said)
        assert len(found.propose(100).ids) == copied
    found.extend(range(3, 100))
    assert len(found.propose(100).ids) == 64


def test_a_passage_is_taken_up_again_behind_a_changed_id_with_half_of_what_spoke_for_it():
    found = SuffixLookup([[*range(20)]])
    found.begin([100])
    found.extend(range(8))
    assert found.propose(4) == Match([8, 9, 10, 11], 8, own=False)
    found.append(50)
    assert found.propose(4) == Match([9, 10, 11, 12], 4, own=False, resumed=True)
    found.extend([51, 52])
    assert found.propose(4) == Match([11, 12], 1, own=False, resumed=True)
    found.append(53)
    assert found.propose(4) == NO_MATCH


def test_what_ends_like_the_answer_for_longer_than_speaks_for_the_passage_left_comes_first():
    found = SuffixLookup([[1, 2, 3, 4], [7, 8, 9, 5]])
    found.begin([100])
    found.extend([1, 2])
    assert found.propose(1).ids == [3]
    found.extend([7, 8, 9])
    assert found.propose(1) == Match([5], 3, own=False)


@given(st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=4), st.lists(st.integers(0, 3), max_size=40))
def test_whatever_was_said_what_is_copied_stands_in_an_earlier_text(texts, said):
    found = SuffixLookup(texts)
    found.begin([])
    for place, i in enumerate(said, 1):
        found.append(i)
        copied = list(found.propose(8).ids)
        everything = [*texts, said[:place]]
        starts = [(text, n) for text in everything for n in range(len(text))]
        assert not copied or any(text[n : n + len(copied)] == copied for text, n in starts)
