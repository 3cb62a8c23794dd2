"""Passes of one class of widths compute the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.requantize import requantized
from omnidraft.backends.llama import context
from omnidraft.backends.llama.bits import WIDTHS, WidthClass, width_class
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.settings.config import ModelSettings

BITS = ModelSettings(n_ctx=512, exact="bits")


def read(*groups: tuple[int, ...]) -> dict[int, list[bytes]]:
    """Rows of passes, alike within each group of widths."""
    return {width: [bytes([index])] for index, group in enumerate(groups) for width in group}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([WIDTHS], WidthClass(1, 16)),
        ([(1,), WIDTHS[1:]], WidthClass(2, 16)),
        ([(1, 2, 3), (4,), (5,), (6,), (8,), (16,)], WidthClass(1, 3)),
        ([(1, 2, 3, 5), (4, 6, 8, 16)], WidthClass(1, 3)),
        ([(1,), (2, 3, 4), (5, 6, 8), (16,)], WidthClass(2, 4)),
        ([(width,) for width in WIDTHS], WidthClass(1, 1)),
    ],
)
def test_the_class_of_plain_decoding_if_it_has_room_for_guesses_else_that_of_two_rows(groups, expected):
    assert width_class(read(*groups)) == expected


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
            found.append(np.concatenate(rows)[:200])
        assert target.widest > 3
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_padding_leaves_nothing_behind(models: Path):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", BITS) as target:
        target._context.least_rows, target._context.padded_wholly = 2, True  # as where single rows are computed apart
        target.extend([5, 6, 7], 1)
        target.extend([8], 1)
        assert target.tokens == [5, 6, 7, 8]
        assert target._context.held == 4
        full = target.n_ctx - len(target.tokens)
        target.extend([9] * full, 1)  # to the last place of the context
        assert target._context.held == target.n_ctx


@pytest.fixture(scope="module")
def target_in(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The bundled target in another format."""
    folder = tmp_path_factory.getbasetemp() / "forms"
    return lambda form: requantized(models / "tiny-target-a-f16.gguf", form, folder)


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0"])
def test_quantized_rows_are_the_same_one_by_one_and_together(target_in: Callable[[str], Path], name: str):
    """Whatever layout this processor's kernels want for them."""
    with LlamaTarget.open(target_in(name), ModelSettings(n_ctx=512, threads=1)) as target:
        together = target.extend([5, 6, 7, 8, 9], 5).copy()
        target.rewind(0)
        singly = np.concatenate([target.extend([id], 1).copy() for id in (5, 6, 7, 8, 9)])
        np.testing.assert_allclose(together, singly, atol=0.05)


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
