"""Gumbel noise that anyone can recompute: a hash of (seed, position, outcome), no stream to keep in step.

The target draws each position as argmax over tokens of log p + g (Gumbel-max: exactly p). Because g depends on
nothing but seed, position and token id, the drafter can look at the same noise, and the text is the same whatever
was drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, log

import numpy as np

_ODD_INT, _M1_INT, _M2_INT = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ODD, _M1, _M2 = (np.array([n], np.uint64) for n in (_ODD_INT, _M1_INT, _M2_INT))
_S30, _S27, _S31, _S11 = (np.array([n], np.uint64) for n in (30, 27, 31, 11))  # scalars would be converted every time
_MASK = (1 << 64) - 1
_ONE_BY_ONE = 40

# Outcomes that are not token ids live above every id: groups of ids, and "one of the groups".
GROUP = 1 << 40
TAIL = 1 << 41


def _mix(x: int) -> int:
    """The 64-bit finalizer of SplitMix64 (Steele, Lea, Flood 2014) on one Python integer."""
    x = (x + _ODD_INT) & _MASK
    x = ((x ^ (x >> 30)) * _M1_INT) & _MASK
    x = ((x ^ (x >> 27)) * _M2_INT) & _MASK
    return x ^ (x >> 31)


@lru_cache(maxsize=256)  # drafter and target ask about the same positions
def _key(seed: int, position: int) -> int:
    return _mix(_mix(seed & _MASK) ^ ((position * 0xD1342543DE82EF95) & _MASK))


def uniforms(seed: int, position: int, outcomes: np.ndarray) -> np.ndarray:
    """(n,) float64 in (0, 1), 53 random bits each, for `outcomes` (n,) of any integer type."""
    key = np.uint64(_key(seed, position))
    x = outcomes.astype(np.uint64)
    x *= _ODD
    x += key
    for _ in range(2):  # one round leaves neighbouring ids faintly correlated in the low bits
        x ^= x >> _S30
        x *= _M1
        x ^= x >> _S27
        x *= _M2
        x ^= x >> _S31
        x += key
    return ((x >> _S11).astype(np.float64) + 0.5) * 2.0**-53


def gumbel(seed: int, position: int, outcomes: np.ndarray) -> np.ndarray:
    """(n,) standard Gumbel noise, float64: -log(-log u)."""
    x = uniforms(seed, position, outcomes)
    for _ in range(2):
        np.log(x, out=x)
        np.negative(x, out=x)
    return x


def gumbels(seed: int, position: int, outcomes: Sequence[int]) -> list[float]:
    """`gumbel` for a list, which is mostly short: behind a model's pass numpy's two dozen calls take longer."""
    if len(outcomes) > _ONE_BY_ONE:
        return gumbel(seed, position, np.array(outcomes)).tolist()
    key = _key(seed, position)
    found = []
    for outcome in outcomes:
        x = (outcome * _ODD_INT + key) & _MASK
        for _ in range(2):
            x ^= x >> 30
            x = (x * _M1_INT) & _MASK
            x ^= x >> 27
            x = (x * _M2_INT) & _MASK
            x ^= x >> 31
            x = (x + key) & _MASK
        u = ((x >> 11) + 0.5) * 2.0**-53
        found.append(-log(-log(u)) if u < 1.0 else inf)
    return found
