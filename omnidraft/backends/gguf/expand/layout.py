"""Where each dimension of the small model sits in the large one, and what may stand everywhere else.

A matrix of the large model is described by a row map and a column map. An entry >= 0 is the small model's index;
the negative entries say what is known about a row or column the small model lacks:

- a column is DEAD if its input is always exactly zero (its weights cannot matter), or IGNORED if the input may be
  anything and must not count;
- a row is FREE if nothing reads its result, or SILENT if its result must be exactly zero.

Hence one rule for every cell: DEAD column or FREE row -> random; both indices known -> the small model's weight;
otherwise zero. Filler layers add nothing because their values and `up` rows are SILENT: they read only DEAD columns.

The small model's weights keep whole blocks of 32 columns to themselves, so quantizing the large model gives them the
scales and integers that quantizing the small model gives.
"""

from __future__ import annotations

import numpy as np

from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.errors import ModelError

DEAD, IGNORED = -1, -2  # columns
FREE, SILENT = -1, -2  # rows


def _fit(small: Shape, large: Shape) -> None:
    for field in ("width", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab"):
        if getattr(large, field) < getattr(small, field):
            raise ModelError(
                f"{small.name} does not fit the shape {large.name}: "
                f"{field} {getattr(small, field)} > {getattr(large, field)}."
            )
    if large.head_dim % small.head_dim:
        raise ModelError(f"head_dim {large.head_dim} is no multiple of {small.name}'s {small.head_dim}.")
    if large.vocab > small.vocab and large.width == small.width:
        raise ModelError(f"Padding the vocabulary of {small.name} needs a width above {small.width}.")


def _prefix(length: int, known: int, rest: int) -> np.ndarray:
    """0, 1, ..., known - 1, then `rest`."""
    positions = np.arange(length)
    return np.where(positions < known, positions, rest)


def _heads(small: Shape, large: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Per large query head and per large key/value head the small model's head, or -1.

    A small group of query heads on one key/value head is cut to the large model's group size; each part gets its own
    copy of that key/value head.
    """
    per_small, per_large = small.heads // small.kv_heads, large.heads // large.kv_heads
    parts = [
        (group, list(range(group * per_small, (group + 1) * per_small))[start : start + per_large])
        for group in range(small.kv_heads)
        for start in range(0, per_small, per_large)
    ]
    if len(parts) > large.kv_heads:
        raise ModelError(
            f"{small.name} needs {len(parts)} key/value heads in the shape {large.name}, which has {large.kv_heads}."
        )
    query, shared = np.full(large.heads, -1), np.full(large.kv_heads, -1)
    for slot, (group, members) in enumerate(parts):
        shared[slot] = group
        query[slot * per_large : slot * per_large + len(members)] = members
    return query, shared


class Layout:
    """Row and column maps of every matrix, for one small and one large shape; ModelError if the small does not fit."""

    def __init__(self, small: Shape, large: Shape) -> None:
        _fit(small, large)
        self.small, self.large = small, large
        # The first column behind the small width, which starts a block of its own. See `padding`.
        self.reserved = small.width if large.width > small.width else None
        self.inputs = _prefix(large.width, small.width, DEAD)
        self.outputs = _prefix(large.width, small.width, SILENT)
        query_heads, kv_heads = _heads(small, large)
        rotary = self._rotary_dims()
        self.query = self._spread(query_heads, rotary, FREE, FREE)
        self.key = self._spread(kv_heads, rotary, FREE, SILENT)
        values = _prefix(large.head_dim, small.head_dim, -1)
        self.value = self._spread(kv_heads, values, SILENT, SILENT)
        self.attended = self._spread(query_heads, values, DEAD, DEAD)
        # A filler query head on a real key/value head attends to real values: that result must not count.
        carries = np.repeat(self.value.reshape(large.kv_heads, -1) >= 0, large.heads // large.kv_heads, axis=0).ravel()
        self.attended[(self.attended < 0) & carries] = IGNORED

    @property
    def rotation_gain(self) -> float:
        """What the rotation must multiply queries and keys by, so that 1/sqrt(head_dim) is the small model's."""
        return (self.large.head_dim / self.small.head_dim) ** 0.25

    def _rotary_dims(self) -> np.ndarray:
        """Per dimension of a large head the small head's dimension with the same rotary frequency, or -1.

        Pair j of d dimensions turns with base^(-2j/d), so it is pair j*m of m*d dimensions.
        """
        ratio = self.large.head_dim // self.small.head_dim
        dims = np.arange(self.large.head_dim)
        pair, part = dims // 2, dims % 2
        return np.where(pair % ratio == 0, 2 * (pair // ratio) + part, -1)

    def _spread(self, heads: np.ndarray, dims: np.ndarray, no_head: int, no_dim: int) -> np.ndarray:
        index = np.where(dims >= 0, heads[:, None] * self.small.head_dim + dims, no_dim)
        return np.where(heads[:, None] >= 0, index, no_head).ravel()

    def matrix(self, kind: str, real: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """(row map, column map) of a layer's matrix such as "attn_q"; `real` False for a filler layer."""
        neurons = self.large.ffn, self.small.ffn
        rows, columns = {
            "attn_q": (self.query, self.inputs),
            "attn_k": (self.key, self.inputs),
            "attn_v": (self.value, self.inputs),
            "attn_output": (self.outputs, self.attended),
            "ffn_gate": (_prefix(*neurons, FREE), self.inputs),
            "ffn_up": (_prefix(*neurons, SILENT), self.inputs),
            "ffn_down": (self.outputs, _prefix(*neurons, DEAD)),
        }[kind]
        if real:
            return rows, columns
        if kind in ("attn_v", "ffn_up"):
            return np.full_like(rows, SILENT), columns
        if kind in ("attn_output", "ffn_down"):
            return rows, np.full_like(columns, DEAD)
        return np.full_like(rows, FREE), columns

    def embedding(self) -> tuple[np.ndarray, np.ndarray]:
        """Maps of the token embedding: what a real token adds beyond the small width must be zero."""
        return self._tokens(), np.where(self.inputs >= 0, self.inputs, IGNORED)

    def output(self) -> tuple[np.ndarray, np.ndarray]:
        """Maps of an output layer of its own."""
        return self._tokens(), self.inputs

    def _tokens(self) -> np.ndarray:
        return _prefix(self.large.vocab, self.small.vocab, FREE)
