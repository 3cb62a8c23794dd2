"""A replay record survives its compact form, and nothing else is accepted as one."""

import json
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.errors import StorageError
from omnidraft.learning.material.record import STEPS_PER_NAT, decode, encode
from tests.learning.learning_helpers import random_record

CUT = encode(random_record(np.random.default_rng(1), 10))[:-3]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), tokens=st.integers(0, 40))
def test_encoding_keeps_ids_exactly_and_probabilities_closely(seed, tokens):
    record = random_record(np.random.default_rng(seed), tokens)
    back = decode(encode(record))
    for name in ("prompt", "targets", "pieces", "spans", "counts", "ids"):
        assert np.array_equal(getattr(back, name), getattr(record, name)), name
    assert np.abs(back.logprobs - record.logprobs).max(initial=0) <= 0.5 / STEPS_PER_NAT + 1e-6
    assert np.allclose(back.rest, record.rest, rtol=3e-3)
    assert (back.chat, back.time) == (record.chat, record.time)


def test_the_first_positions_own_expansions_survive():
    record = random_record(np.random.default_rng(0), 3)
    first = tuple((int(i), 7) if i % 2 else (int(i),) for i in record.ids[: record.counts[0]])
    record = random_record(np.random.default_rng(0), 3, first=first, leading_space=True)
    assert decode(encode(record)).first == first


@pytest.mark.parametrize("data", [pickle.dumps({"a": 1}), b"", b"ODR1", b"ODR1" + b"\x00" * 40, CUT])
def test_foreign_bytes_and_a_cut_record_are_refused(data):
    with pytest.raises(StorageError):
        decode(data)


def test_a_token_costs_a_few_hundred_bytes_at_most():
    record = random_record(np.random.default_rng(2), 200)
    assert len(encode(record)) / 200 < 250  # 48 candidates of a 150k vocabulary: 3 bytes an id, about 1 a probability


def test_what_an_earlier_program_wrote_is_read_and_says_no_drafter():
    data = encode(random_record(np.random.default_rng(0), 12, drafter="d"))
    assert decode(data).drafter == "d"
    assert (
        decode(
            with_header(data, lambda head: head | {"extra": {}, "task": "math", "temperature": 1.0}, leave=("drafter",))
        ).drafter
        == ""
    )
    with pytest.raises(StorageError, match="damaged"):
        decode(with_header(data, lambda head: head | {"unknown": 1}))


def with_header(data: bytes, change, leave=()) -> bytes:
    """The record with another JSON header."""
    raw = zlib.decompress(data[4:])
    (length,) = struct.unpack_from("<I", raw)
    head = change(json.loads(raw[4 : 4 + length]))
    head = json.dumps({name: value for name, value in head.items() if name not in leave}).encode()
    return data[:4] + zlib.compress(struct.pack("<I", len(head)) + head + raw[4 + length :])
