"""Which pass widths compute the same bits, so that no text depends on what was guessed, not even in its last bits.

llama.cpp has several kernels for one product, and chooses by the number of rows and the format of the weights: two
of them round differently, what they write into the KV cache drifts apart, and some tokens later another one wins.
With flash attention, on x86 processors: Q8_0 and Q4_0 compute every row alike in passes of any width; F16 and F32 in
all but those of one row; Q4_K up to three rows. Knows neither drafting nor where passes come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.backends.base import LanguageModel
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.runtime import type_names

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 16)  # those between two that agree take the same kernels
ROWS = 8  # of logits that are compared: another kernel shows in the first
_ALIKE = {"Q8_0", "Q4_0"}
_PREFIX = 24  # ids before those that are compared: attention has something to attend to
_WORTH = 3  # rows: narrower classes leave no room for guesses


@dataclass(frozen=True, slots=True)
class WidthClass:
    """Passes of `least` to `widest` rows compute the same bits; narrower ones are padded."""

    least: int
    widest: int


def alike_at_any_width(info: ModelInfo) -> bool:
    """Whether all matrices are in formats whose kernels compute each row by itself."""
    types = type_names()
    found = {
        types.get(tensor.type) for part in info.parts for tensor in read_header(part).tensors.values()
        if len(tensor.shape) > 1
    }  # fmt: skip
    return found <= _ALIKE


def rows_read_by(model: LanguageModel, width: int) -> list[bytes]:
    """Logits of ROWS rows behind some tokens, read in passes of this width. Leaves the cache empty."""
    ids = np.resize(np.flatnonzero(model.vocabulary.ordinary)[:97], _PREFIX + ROWS).tolist()
    model.extend(ids[:_PREFIX], 0)
    rows = []
    for start in range(_PREFIX, len(ids), width):
        step = ids[start : start + width]
        step += step[-1:] * (width - len(step))  # the last pass is as wide as the others
        rows += [row.tobytes() for row in model.extend(step, width)]
    model.rewind(0)
    return rows[:ROWS]


def width_class(read: Mapping[int, Sequence[bytes]]) -> WidthClass:
    """The class that plain decoding shares, or where it has none that of two rows.

    read: for each of WIDTHS the rows (as bytes) of the same tokens, read in passes of that width.
    """
    for least in (1, 2):
        widest = _widest(read, least)
        if widest >= _WORTH:
            return WidthClass(least, widest)
    return WidthClass(1, 1)


def _widest(read: Mapping[int, Sequence[bytes]], least: int) -> int:
    widest = least
    for width in (width for width in WIDTHS if width > least):
        if read[width] != read[least]:
            break
        widest = width
    return widest
