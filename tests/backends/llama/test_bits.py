"""Passes of one class of widths compute the same bits."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.llama import context
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.widths import WIDTHS, WidthClass, width_class
from omnidraft.settings.config import ModelSettings

BITS = ModelSettings(n_ctx=512)


def test_rows_of_every_width_in_the_class_have_the_same_bits_over_many_tokens(models: Path):
    """Also those behind keys and values that passes of the same width wrote."""
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", BITS) as target:
        ids = np.random.default_rng(0).choice(np.flatnonzero(target.vocabulary.ordinary), 260).tolist()
        found = []
        for widths in ((1,), (target.widest,), (3, 1, 5, 2)):
            target.rewind(0)
            target.extend(ids[:20], 1)
            rows, done = [], 20
            for width in itertools.cycle(widths):
                if done + width > len(ids):
                    break
                rows.append(target.extend(ids[done : done + width], width).copy())
                done += width
            found.append(np.concatenate(rows)[:192])
        assert target.widest > 3
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("kernels", "expected", "asked"),
    [
        ("aaaaaaaaa", WidthClass(1, 64), (1, 2, 3, 4, 5, 7, 8, 16, 64)),
        ("aaaabbbbb", WidthClass(1, 4), (1, 2, 3, 4, 5)),
        ("abbbbbccc", WidthClass(2, 7), (1, 2, 3, 4, 5, 7, 8)),
        ("aabbccccc", WidthClass(1, 1), (1, 2, 3)),
        ("abacdefgh", WidthClass(1, 1), (1, 2, 3)),
    ],
)
def test_no_width_is_read_behind_the_first_that_differs(kernels: str, expected: WidthClass, asked: tuple[int, ...]):
    """A card may have to build another kernel for each, for minutes."""
    read = []
    rows = dict(zip(WIDTHS, kernels, strict=True))
    assert width_class(lambda width: read.append(width) or [rows[width]], WIDTHS) == expected
    assert tuple(sorted(read)) == asked


@pytest.mark.slow
def test_where_plain_products_cannot_attend_flash_attention_has_one_kernel_too(models: Path, monkeypatch):
    """Behind 600 tokens, where it would divide one row among threads, and takes other tiles for many rows."""
    monkeypatch.setattr(context, "rows_apart", lambda: True)
    settings = ModelSettings(n_ctx=1024, threads=2)
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", settings) as target:
        ids = np.resize(np.flatnonzero(target.vocabulary.ordinary)[:97], 700).tolist()
        found = []
        for width in (1, 5, 50):
            target.rewind(0)
            target.extend(ids[:600], 0)
            rows = [target.extend(ids[at : at + width], width)[-1].tobytes() for at in range(600, 700, width)]
            found.append(rows[-1])
        assert target._context._flash
    assert len(set(found[-2:])) == 1
    assert found[0] == found[1]
