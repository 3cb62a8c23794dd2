"""The static map between two vocabularies: equal bytes, exact expansions, a disk copy that is never trusted blindly."""

import time

import numpy as np
import pytest

from omnidraft.vocab import PairMap
from tests.vocab.conftest import PAIRS, REFERENCE_NAMES, pair_map, vocabulary

QUICK = [
    ("llama-spm", "gpt-2"), ("llama-spm", "qwen2"), ("tiny-drafter", "tiny-target-a"),
    ("tiny-drafter", "tiny-target-b"),
]  # fmt: skip


NEVER_IN_TEXT = {0xC0, 0xC1, *range(0xF5, 0x100)}  # bytes that no UTF-8 text holds


def assert_expansions_are_exact(pair: PairMap) -> None:
    """DeepSeek's vocabulary has no tokens for the bytes above, so what holds one cannot be spelled in it."""
    drafter, target = pair.drafter, pair.target
    for token in np.flatnonzero(target.ordinary).tolist():
        pieces = pair.expansions[token]
        if not pieces:
            missing = {byte for byte in target.pieces[token] if bytes((byte,)) not in drafter.by_bytes}
            assert missing
            assert missing <= NEVER_IN_TEXT
            assert drafter.family == "deepseek-llm"
            continue
        assert b"".join([drafter.pieces[piece] for piece in pieces]) == target.pieces[token], (token, pieces)
        assert all(drafter.ordinary[piece] for piece in pieces)


@pytest.mark.parametrize(("drafter", "target"), QUICK)
def test_every_ordinary_target_token_expands_to_exactly_its_bytes(drafter, target):
    assert_expansions_are_exact(pair_map(drafter, target))


@pytest.mark.slow
@pytest.mark.parametrize("drafter", REFERENCE_NAMES)
def test_every_pair_expands_exactly(drafter):
    for target in [t for d, t in PAIRS if d == drafter]:
        assert_expansions_are_exact(PairMap.build(vocabulary(drafter), vocabulary(target), None))


def test_ordinary_pieces_are_preferred_over_byte_tokens():
    pair = pair_map("llama-spm", "gpt-2")
    token = pair.target.by_bytes[b"A"]
    (piece,) = pair.expansions[token]
    byte_token = pair.drafter.pieces.index(b"A")
    assert piece != byte_token
    assert pair.direct[piece] == pair.direct[byte_token] == token


def test_ends_of_generation_stand_for_each_other_and_other_controls_for_nothing(bundled_pair):
    drafter, target = bundled_pair.drafter, bundled_pair.target
    for text, token in target.controls.items():
        expected = (drafter.eos,) if token in target.eog else ()
        assert bundled_pair.expansions[token] == expected, text


def test_splits_spell_the_piece_exactly(bundled_pair):
    for d in range(bundled_pair.drafter.size):
        parts = bundled_pair.splits(d)
        assert bundled_pair.target.decode(parts) == bundled_pair.drafter.pieces[d]
        if bundled_pair.direct[d] >= 0:
            assert parts == (bundled_pair.direct[d],)


def test_the_disk_copy_gives_the_same_map(tmp_path, monkeypatch):
    drafter, target = vocabulary("tiny-drafter"), vocabulary("tiny-target-a")
    first = PairMap.build(drafter, target, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
    monkeypatch.setattr("omnidraft.vocab.pair_map._compute", None)  # reading must be enough
    second = PairMap.build(drafter, vocabulary("tiny-target-a2"), tmp_path)
    assert (first.direct == second.direct).all()
    assert first.expansions == second.expansions


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-1000])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _pickle(path):
    np.savez(path, format=np.int32(1), direct=np.array([{}], dtype=object), flat=np.arange(3), offsets=np.arange(3))


@pytest.mark.parametrize("damage", [_truncate, _flip, _pickle])
def test_a_damaged_disk_copy_is_rebuilt(tmp_path, damage):
    drafter, target = vocabulary("tiny-drafter"), vocabulary("tiny-target-b")
    good = PairMap.build(drafter, target, tmp_path)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    damage(path)
    assert path.read_bytes() != before
    again = PairMap.build(drafter, target, tmp_path)
    assert again.expansions == good.expansions
    assert (again.direct == good.direct).all()
    with np.load(path, allow_pickle=False) as file:
        assert file["flat"].dtype == np.int32


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    pair = PairMap.build(vocabulary("tiny-drafter"), vocabulary("tiny-target-b"), blocked / "cache")
    assert len(pair.expansions) == pair.target.size


@pytest.mark.slow
def test_a_152k_pair_is_mapped_in_seconds_and_read_back_in_a_fraction(tmp_path):
    drafter, target = vocabulary("llama-spm"), vocabulary("qwen2")
    start = time.process_time()
    PairMap.build(drafter, target, tmp_path)
    built = time.process_time()
    PairMap.build(drafter, target, tmp_path)
    read = time.process_time()
    assert built - start <= 3.0
    assert read - built <= 0.5
