"""Passes are filled up to a few widths where another width costs more than the rows."""

from pathlib import Path

import llama_cpp
import numpy as np

from omnidraft.backends.llama import model
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.widths import Widths
from omnidraft.settings.config import ModelSettings


def settled(changing: float, row: float, widest: int = 64) -> Widths:
    """On a machine that takes so many seconds for another width than the pass before, and for every row."""
    widths, before = Widths(), 0

    def seconds_of(rows: int) -> float:
        nonlocal before
        before, changed = rows, rows != before
        return row * rows + changing * changed

    widths.settle(seconds_of, widest)
    return widths


def test_passes_are_filled_only_where_that_costs_less_and_never_beyond_the_class():
    dear = settled(changing=0.01, row=0.001)
    assert [rows + dear.missing(rows) for rows in range(1, 20)] == [1, 2, 3, *[5] * 2, *[9] * 4, *[17] * 8, 18, 19]
    assert not settled(changing=0.001, row=0.01).filling
    assert [rows + settled(0.01, 0.001, widest=7).missing(rows) for rows in range(1, 8)] == [1, 2, 3, 5, 5, 6, 7]
    assert not settled(changing=0.01, row=0.001, widest=4).filling


def test_a_filled_pass_has_the_bits_of_one_that_is_not_and_leaves_nothing_behind(models: Path, monkeypatch):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", ModelSettings(n_ctx=64)) as target:
        ids = np.flatnonzero(target.vocabulary.ordinary)[:60].tolist()
        read, passes = [], []
        decode = llama_cpp.llama_decode
        monkeypatch.setattr(llama_cpp, "llama_decode", lambda *a: passes.append(a[1].n_tokens) or decode(*a))
        for filling in (False, True):
            target._context.widths.filling, target._context.widths.widest = filling, target.widest
            target.rewind(0)
            rows = [target.extend(ids[at : at + 4], 4).copy() for at in range(0, 60, 4)]  # no room to fill the last
            read.append((np.concatenate(rows), target._context.held))
    assert passes == [*[4] * 15, *[5] * 15]
    assert read[0][1] == read[1][1] == 60
    np.testing.assert_array_equal(read[0][0], read[1][0])


def test_only_what_a_card_or_a_worker_computes_is_measured(models: Path, monkeypatch):
    """Passes of processors cost nothing to change."""
    settled, file = [], models / "tiny-target-a-f16.gguf"
    monkeypatch.setattr(Widths, "settle", lambda self, seconds_of, widest: settled.append((seconds_of(5), widest)))
    monkeypatch.setattr(model, "gpu_offload", lambda: True)
    for layers in (0, 1000):
        with LlamaTarget.open(file, ModelSettings(n_ctx=64, n_gpu_layers=layers)) as target:
            assert (target.tokens, target._context.held) == ([], 0)
    ((seconds, widest),) = settled
    assert seconds > 0
    assert widest == target.widest
