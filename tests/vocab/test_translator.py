"""Drafted pieces become proposals with exactly their bytes; what could still grow is held back."""

from functools import lru_cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.settings.config import CacheSettings
from omnidraft.vocab import NgramCache, PairMap, Translator
from tests.vocab.conftest import pair_map

TARGETS = ["tiny-target-a", "tiny-target-b"]
TEXT = " The understanding of the situation in 1984 was 😀 and naïveté\n\n\tdef foo(bar): 中文 won't"


def cached(pair: PairMap, tokens=None, seed=False) -> NgramCache:
    cache = NgramCache.open(None, pair, CacheSettings(seed=seed))
    for token in tokens or []:
        cache.learn(token)
    return cache


@lru_cache
def ngrams(pair: PairMap) -> list[int]:
    preferred = set(pair.target.by_bytes.values())
    return [t for t, pieces in enumerate(pair.expansions) if len(pieces) > 1 and t in preferred]


@lru_cache
def ordinary(pair: PairMap) -> list[int]:
    return np.flatnonzero(pair.drafter.ordinary).tolist()


@st.composite
def situations(draw):
    """(pair, cached target ids, drafted pieces): pieces are expansions of cached and other tokens, cut and mixed."""
    pair = pair_map("tiny-drafter", draw(st.sampled_from(TARGETS)))
    known = draw(st.lists(st.sampled_from(ngrams(pair)), max_size=12, unique=True))
    parts = draw(
        st.lists(
            st.one_of(
                st.sampled_from(ordinary(pair)).map(lambda piece: (piece,)),
                st.sampled_from(known or ngrams(pair)).map(lambda token: pair.expansions[token]),
                st.sampled_from(ngrams(pair)).map(lambda token: pair.expansions[token]),
                st.text(max_size=4).map(lambda text: tuple(pair.drafter.encode(text))),
            ),
            max_size=8,
        )
    )
    pieces = [piece for part in parts for piece in part]
    return pair, known, pieces[: draw(st.integers(0, len(pieces)))]


@settings(max_examples=120, deadline=None)
@given(situations(), st.booleans())
def test_proposals_have_the_bytes_of_the_pieces_they_consume(situation, final):
    pair, known, pieces = situation
    proposals = Translator(pair, cached(pair, known)).segment(pieces, final=final)
    consumed = sum(p.pieces for p in proposals)
    assert pair.target.decode([p.target_id for p in proposals]) == pair.drafter.decode(pieces[:consumed])
    assert consumed == len(pieces) or not final
    position = 0
    for p in proposals:
        assert p.start == position
        position += p.pieces


@settings(max_examples=120, deadline=None)
@given(situations())
def test_the_longest_cached_ngram_wins_then_the_direct_map_then_the_split(situation):
    pair, known, pieces = situation
    proposals = iter(Translator(pair, cached(pair, known)).segment(pieces))
    position = 0
    while position < len(pieces):
        here = [t for t in known if tuple(pieces[position : position + len(pair.expansions[t])]) == pair.expansions[t]]
        if here:
            best = max(here, key=lambda t: len(pair.expansions[t]))
            assert next(proposals) == (best, "ngram", len(pair.expansions[best]), position)
            position += len(pair.expansions[best])
        elif pair.direct[pieces[position]] >= 0:
            assert next(proposals) == (pair.direct[pieces[position]], "direct", 1, position)
            position += 1
        else:
            parts = pair.target.encode_bytes(pair.drafter.pieces[pieces[position]])
            for part in parts[:-1]:
                assert next(proposals) == (part, "split", 0, position)
            assert next(proposals) == (parts[-1], "split", 1, position)
            position += 1
    assert next(proposals, None) is None


def test_byte_tokens_of_a_character_merge_into_a_cached_ngram():
    pair = pair_map("llama-spm", "gpt-2")
    whole = pair.target.encode("é😀")[-2:]  # its tokens cut the emoji between bytes
    token = whole[0]
    pieces = list(pair.expansions[token])
    assert len(pieces) > 1
    assert all(len(pair.drafter.pieces[p]) == 1 for p in pieces)
    merged = Translator(pair, cached(pair, [token])).segment(pieces)
    assert merged == [(token, "ngram", len(pieces), 0)]
    single = Translator(pair, None).segment(pieces)
    assert [p.origin for p in single] == ["direct"] * len(pieces)
    assert pair.target.decode([p.target_id for p in single]) == pair.target.pieces[token]


def test_ends_of_generation_are_proposed_and_other_controls_not_and_both_close_the_segment(bundled_pair):
    piece, eos = bundled_pair.drafter.by_bytes[b" the"], bundled_pair.drafter.eos
    translator = Translator(bundled_pair, cached(bundled_pair, seed=True))
    proposals = translator.segment([piece, eos, piece], final=False)
    assert proposals[1:] == [(bundled_pair.target.eos, "direct", 1, 1)]
    assert translator.drafter_ids(bundled_pair.target.eos) == (eos,)
    for control in (0, bundled_pair.drafter.bos):
        assert [p.start for p in translator.segment([piece, control, piece])] == [0]


def test_the_first_token_of_an_answer_gets_a_virtual_space():
    pair = pair_map("tiny-drafter", "tiny-target-a")
    translator = Translator(pair, None)
    assert pair.drafter.decode(translator.first_drafter_ids(b"The")) == b" The"
    assert len(translator.first_drafter_ids(b"The")) == 1
    assert pair.drafter.decode(translator.first_drafter_ids("😀".encode()[:2])) == b" " + "😀".encode()[:2]
    for data in (b"", b" the", b"\n\n"):
        assert pair.drafter.decode(translator.first_drafter_ids(data)) == data


def test_emitted_tokens_teach_the_cache():
    pair = pair_map("tiny-drafter", "tiny-target-a")
    cache = cached(pair)
    translator = Translator(pair, cache)
    token = ngrams(pair)[0]
    assert translator.segment(pair.expansions[token])[0].target_id != token
    translator.emitted(token, "chat")
    translator.emitted(pair.target.by_bytes[b" the"], "chat")
    assert len(cache) == 1
    assert translator.segment(pair.expansions[token])[0].target_id == token
