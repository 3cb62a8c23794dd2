"""Widths of passes: which compute the same bits, and which cost least on cards and workers.

There a graph of another number of rows than the one before is built or sent anew. Where that takes longer than
computing a row too many, passes are filled up to a few widths, so that most find the graph in place. Filling changes no
row that was asked for. Knows neither drafting nor where passes come from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llama_cpp
import numpy as np

from omnidraft.backends.base import LanguageModel
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.gguf.header import Tensor, read_header
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.kernels.check import FORMATS
from omnidraft.backends.llama.runtime import type_layout, type_names
from omnidraft.processes.progress import tell
from omnidraft.storage.known import Known

FEW = (1, 2, 3, 5, 9, 17)
_WIDE, _NARROWER = 5, 4  # widths that show what a change and what a row costs
_PASSES = 3  # of each


class Widths:
    """Fills passes up to `FEW` widths, `widest` at most, once `settle` found that it pays; changing, row: the seconds
    it found."""

    def __init__(self) -> None:
        self.filling, self.widest = False, 0
        self.changing = self.row = 0.0

    def settle(self, seconds_of: Callable[[int], float], widest: int) -> None:
        """Measure with a few passes: seconds_of(n) runs one of n rows and says what it took."""
        self.filling, self.widest = False, widest
        if widest < _WIDE:
            return
        seconds_of(_NARROWER)
        wide = [seconds_of(_WIDE) for _ in range(_PASSES)]
        narrower = [seconds_of(_NARROWER) for _ in range(_PASSES)]
        self.changing = max(0.0, (wide[0] - min(wide[1:]) + narrower[0] - min(narrower[1:])) / 2)
        self.row = max(0.0, min(wide) - min(narrower))
        self.filling = self.changing > self.row

    def missing(self, rows: int) -> int:
        """How many rows to add to a pass of `rows`."""
        if not self.filling or rows < 2:
            return 0
        return next((width - rows for width in FEW if rows <= width <= self.widest), 0)


# Which pass widths compute the same bits, so that no text depends on what was guessed, not even in its last bits.
# Our own kernels (kernels/) compute a row alike in passes of any width. llama.cpp has several for one product, and
# chooses by the number of rows and the format of the weights: two of them round differently, what they write into the
# KV cache drifts apart, and some tokens later another one wins. Without ours, as requirements.txt has llama.cpp built,
# float and plain quantized matrices compute every row by itself, K-quants up to seven rows; a build with llamafile's
# products computes single rows of float matrices otherwise than several. What is so is found out with a model as it is
# loaded, and kept for all that are computed in the same way (`form`).


WIDTHS = (1, 2, 3, 4, 5, 7, 8, 16, 64)  # those between two that agree take the same kernels
ROWS = 4  # of logits that are compared: another kernel shows in the first
_PREFIX = 24  # ids before those that are compared: attention has something to attend to
TRIED_BEHIND = _PREFIX + ROWS  # tokens at most that a width is tried behind
_WORTH = 3  # rows: narrower classes leave no room for guesses


@dataclass(frozen=True, slots=True)
class WidthClass:
    """Passes of `least` to `widest` rows compute the same bits; narrower ones are padded."""

    least: int
    widest: int


@cache
def rows_apart() -> bool:
    """Whether this build of llama.cpp multiplies single rows by another kernel than several (llamafile's)."""
    return b"LLAMAFILE = 1" in llama_cpp.llama_print_system_info()


def rows_read_by(model: LanguageModel, width: int) -> list[bytes]:
    """Digests of the logits of ROWS rows behind some tokens, read in passes of this width; those tokens stay in the
    cache. A row of a large vocabulary is half a megabyte."""
    ids = np.resize(np.flatnonzero(model.vocabulary.ordinary)[:97], _PREFIX + ROWS).tolist()
    if model.tokens[:_PREFIX] == ids[:_PREFIX]:
        model.rewind(_PREFIX)
    else:
        model.rewind(0)
        model.extend(ids[:_PREFIX], 0)
    rows: list[bytes] = []
    for start in range(_PREFIX, len(ids), width):
        step = ids[start : start + width]
        step += step[-1:] * (width - len(step))  # the last pass is as wide as the others
        rows += [hashlib.sha256(row).digest() for row in model.extend(step, width)[: ROWS - len(rows)]]
    model.rewind(_PREFIX)
    return rows


def width_class(
    read: Callable[[int], Sequence[bytes]], widths: Sequence[int], leasts: Sequence[int] = (1, 2)
) -> WidthClass:
    """The class that plain decoding shares, or where that leaves no room for guesses the one of two rows.

    read: the rows (any bytes) of the same tokens, read in passes of that width; it is asked for each of `widths` once
    at most, and not for those behind the first that differs; leasts: how wide plain passes may be.
    """
    rows = cache(read)
    for least in leasts:
        widest = least
        for width in (width for width in widths if width > least):
            if rows(width) != rows(least):
                break
            widest = width
        if widest >= _WORTH:
            return WidthClass(least, widest)
    return WidthClass(1, 1)


def _is_class(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(type(n) is int and n > 0 for n in found)


KNOWN: Known[list[int]] = Known("widths.json", _is_class)  # [least, widest] by form


def class_of(
    key: str | None, read: Callable[[int], Sequence[bytes]], widths: Sequence[int], leasts: Sequence[int]
) -> WidthClass:
    """The class that is known of this form; else, or without a key, the one that is found out as of `width_class`."""
    if key is not None and (known := KNOWN.get(key)) is not None:
        return WidthClass(*known)

    def told(width: int) -> Sequence[bytes]:
        tell("finding out which passes compute the same", widths.index(width) / len(widths))
        return read(width)

    found = width_class(told, widths, leasts)
    if key is not None:
        KNOWN.put(key, [found.least, found.widest])
    return found


def form(info: ModelInfo, attention: Sequence[object], widths: Sequence[int], leasts: Sequence[int]) -> str:
    """Names all that a class depends on where the processor computes; models of one form are of one class.

    Our kernels compute every row by itself whatever its length, in all formats, which is tried as they are built
    (kernels/check.py): of matrices that they take only the place in the model counts, of all others format and shape
    too. attention: how the context attends.
    """
    matrices = {_computed(name, tensor) for part in info.parts for name, tensor in read_header(part).tensors.items()}
    what = (library.computing(), info.architecture, sorted(matrices), *attention, *widths, leasts)
    return hashlib.sha256(repr(what).encode()).hexdigest()


def _computed(name: str, tensor: Tensor) -> str:
    """What tells products with a tensor apart, whichever layer it belongs to."""
    block, kind = (type_layout(tensor.type) or (0, 0))[0], type_names().get(tensor.type, str(tensor.type))
    ours = library.in_use() and kind in FORMATS and block and tensor.shape[0] % block == 0
    return f"{re.sub('[0-9]+', '#', name)} {len(tensor.shape) if ours else (kind, tensor.shape)}"
