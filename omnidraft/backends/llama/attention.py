"""Which kernel of attention a target computes with on the processor, by measurement.

Flash attention goes through the tokens that are there, the other kernel through the cache in blocks of 256. With heads
of 32 values flash attention is quicker for one row of a short conversation, up to twice, and slower for several rows or
behind some hundred tokens; from 64 on both are equal within 5%, so that nothing is tried there. Knows neither drafting
nor texts; a different kernel rounds differently.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

_EQUAL = 64  # values of a head from which on the kernels take the same time
DEPTH = 128  # tokens behind which is measured: a question and half an answer
_DRAFTED = 5  # rows of a pass that verifies a draft
_TIMES = 3  # of each; the quickest counts, as interruptions only add time
_SLOW = 0.1  # seconds of one row: reading `DEPTH` tokens twice would delay the load by more than some seconds
_CLEAR = 0.95  # of the other's time: less could be another kernel at the next load, which rounds otherwise


def is_open(head: int) -> bool:
    """Whether the kernels differ much with heads of so many values."""
    return 0 < head < _EQUAL


def flash_is_quicker(seconds_of: Callable[[bool, int], float], drafts: bool) -> bool:
    """Whether flash attention is clearly quicker for passes of one row, or where drafts are to be verified for those
    and wider ones alike, as nobody knows how many of either there will be.

    seconds_of(flash, rows): what a pass takes behind `DEPTH` tokens with one kernel or the other.
    """
    widths = (1, _DRAFTED) if drafts else (1,)
    taken = {}
    for flash in (False, True):
        taken[flash] = prod(min(seconds_of(flash, rows) for _ in range(_TIMES)) for rows in widths)
        if taken[flash] > _SLOW ** len(widths):
            return False
    return taken[True] < _CLEAR ** len(widths) * taken[False]
