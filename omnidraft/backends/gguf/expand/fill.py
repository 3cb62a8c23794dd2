"""Produces the large model's tensors row by row: the small model's weights where the layout puts them, else filler."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from omnidraft.backends.gguf.expand.layout import DEAD, FREE, Layout
from omnidraft.backends.gguf.expand.padding import PENALTY, NormCorrection
from omnidraft.backends.gguf.expand.source import LlamaFile

FILLER = 0.02  # standard deviation of filler weights: ordinary for a trained model, far from denormal numbers
CHUNK = 1 << 22  # weights made at a time


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers that depend on the seed and the tensor's name only, not on the order of writing."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def chunks(rows: int, columns: int) -> Iterator[slice]:
    """Row ranges of about CHUNK weights."""
    step = max(1, CHUNK // columns)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Filler:
    """Tensor contents of one expansion, in pieces small enough to stream."""

    def __init__(self, source: LlamaFile, layout: Layout, norms: NormCorrection, seed: int) -> None:
        self.source, self.layout, self.norms, self.seed = source, layout, norms, seed

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape (rows, columns) or (length,) of every tensor of the large model, in file order."""
        large = self.layout.large
        table: dict[str, tuple[int, ...]] = {"token_embd": (large.vocab, large.width)}
        if not self.source.tied:
            table["output"] = table["token_embd"]
        table["output_norm"] = (large.width,)
        queries, shared = large.heads * large.head_dim, large.kv_heads * large.head_dim
        for layer in range(large.layers):
            table |= {
                f"blk.{layer}.attn_norm": (large.width,),
                f"blk.{layer}.attn_q": (queries, large.width),
                f"blk.{layer}.attn_k": (shared, large.width),
                f"blk.{layer}.attn_v": (shared, large.width),
                f"blk.{layer}.attn_output": (large.width, queries),
                f"blk.{layer}.ffn_norm": (large.width,),
                f"blk.{layer}.ffn_gate": (large.ffn, large.width),
                f"blk.{layer}.ffn_up": (large.ffn, large.width),
                f"blk.{layer}.ffn_down": (large.width, large.ffn),
            }
        return table

    def tensor(self, name: str) -> Iterator[np.ndarray]:
        """The tensor's rows from first to last as float32 arrays of several rows each; a norm as one vector."""
        if name.endswith("norm"):
            yield self._norm(name)
        elif name == "token_embd":
            # Nothing reads a padding row of an embedding that is not the output layer too, so one rule serves both.
            yield from self._tokens(name, *self.layout.embedding(), real=self.norms.constant)
        elif name == "output":
            yield from self._tokens(name, *self.layout.output(), real=0.0)
        else:
            layer, kind = int(name.split(".")[1]), name.split(".")[2]
            real = layer < self.source.shape.layers
            weights = self.source.weight(name) if real else None
            yield from self._matrix(name, weights, *self.layout.matrix(kind, real))

    def _norm(self, name: str) -> np.ndarray:
        """Scale weights, corrected for the width; the reserved dimension passes the last norm only."""
        large, reserved = self.layout.large, self.layout.reserved
        weights = (1 + 0.1 * generator(self.seed, name).standard_normal(large.width)) * self.norms.scale
        if name in self.source.tensors:
            small = self.source.weight(name).astype(np.float64)
            weights[: len(small)] = small * self.norms.scale
        if reserved is not None:
            weights[reserved] = self.norms.last_scale if name == "output_norm" else 0.0
        return weights.astype(np.float32)

    def _tokens(self, name: str, rows: np.ndarray, columns: np.ndarray, real: float) -> Iterator[np.ndarray]:
        start = 0
        for block in self._matrix(name, self.source.weight(name), rows, columns):
            if self.layout.reserved is not None:
                known = rows[start : start + len(block)] >= 0
                block[:, self.layout.reserved] = np.where(known, real, -PENALTY)
            start += len(block)
            yield block

    def _matrix(
        self, name: str, weights: np.ndarray | None, rows: np.ndarray, columns: np.ndarray
    ) -> Iterator[np.ndarray]:
        """The layout's rule for every cell."""
        random = generator(self.seed, name)
        live = np.flatnonzero(columns != DEAD)
        known = np.flatnonzero(columns >= 0)
        for part in chunks(len(rows), len(columns)):
            block = random.standard_normal((part.stop - part.start, len(columns)), dtype=np.float32)
            block *= FILLER
            bound = np.flatnonzero(rows[part] != FREE)
            block[np.ix_(bound, live)] = 0.0
            real = np.flatnonzero(rows[part] >= 0)
            if weights is not None and len(real) and len(known):
                block[np.ix_(real, known)] = weights[np.ix_(rows[part][real], columns[known])]
            yield block
