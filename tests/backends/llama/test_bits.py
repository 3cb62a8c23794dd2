"""Passes of one class of widths compute the same bits."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.file import usable_info
from omnidraft.backends.llama import context, widths
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.widths import WIDTHS, WidthClass, form, width_class
from omnidraft.processes.progress import Progress, watched
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.known import Known
from tests.forms import requantized

BITS = ModelSettings(n_ctx=512)
needs_kernels = pytest.mark.skipif(not library.in_use(), reason="our kernels are not built here")


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


@pytest.fixture
def known(monkeypatch) -> Known:
    """Nothing is known yet."""
    made = Known("widths.json", bool)
    monkeypatch.setattr(widths, "KNOWN", made)
    return made


def told_while_opening(file: Path, settings: ModelSettings = BITS) -> tuple[list[str], int]:
    """(what was being done, the widest pass of the class)."""

    class Seen(Progress):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            told.extend([value] if name == "doing" else [])

    told: list[str] = []
    with watched(Seen(file)), LlamaTarget.open(file, settings) as target:
        return told, target.widest


TRIED = "finding out which passes compute the same"


@needs_kernels
def test_what_is_known_of_a_form_is_asked_of_no_other_model(models: Path, tmp_path, known, monkeypatch):
    """Nor of the same one, nor behind a restart."""
    known.keep_in(tmp_path)
    first, widest = told_while_opening(models / "tiny-target-a-f16.gguf")
    assert TRIED in first
    again = Known("widths.json", bool)
    again.keep_in(tmp_path)
    for there in (known, again):
        monkeypatch.setattr(widths, "KNOWN", there)
        for name in ("tiny-target-a", "tiny-target-b"):
            told, same = told_while_opening(models / f"{name}-f16.gguf")
            assert TRIED not in told
            assert same == widest


@pytest.mark.parametrize("what", ["another cache", "fewer widths", "llama.cpp's kernels", "another structure"])
def test_what_is_computed_otherwise_is_tried_out(models: Path, known, monkeypatch, what):
    file, settings = models / "tiny-target-a-f16.gguf", BITS
    told_while_opening(file)
    if what == "another cache":
        settings = replace(BITS, kv_type="q8_0")
    if what == "fewer widths":
        settings = replace(BITS, n_ctx=64)
    if what == "llama.cpp's kernels":
        monkeypatch.setattr(library, "in_use", lambda: "")
    if what == "another structure":
        file = models / "tiny-drafter-f16.gguf"
    assert TRIED in told_while_opening(file, settings)[0]


@needs_kernels
def test_shapes_and_formats_do_not_count_only_where_our_kernels_compute(models: Path, tmp_path, monkeypatch):
    a, b = (models / f"tiny-target-{name}-f16.gguf" for name in "ab")
    files = [usable_info(file) for file in (a, b, requantized(a, "Q8_0", tmp_path))]
    assert len({form(info, (), WIDTHS, (1, 2)) for info in files}) == 1
    monkeypatch.setattr(library, "in_use", lambda: "")
    assert len({form(info, (), WIDTHS, (1, 2)) for info in files}) == 3


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
