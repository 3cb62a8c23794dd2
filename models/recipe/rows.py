"""What the drafter learns from: answers in its own pieces, and what the target might have written at each of them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .cut import Vocabulary
from .prompts import Conversation

Batch = tuple[Tensor, Tensor, Tensor, Tensor]  # what `batch` makes

_LONGEST = 384
_SHARE = 0.5  # of the chances is the target's, the rest is the text's
_KEPT = 16  # likeliest pieces at a position
_HELD_OUT = 32  # one answer of so many
_END = 2
_PACKED = {"ids": np.uint16, "top": np.uint16, "logp": np.float16}


class Row(NamedTuple):
    """A conversation. start: how many of its pieces are not learned; likely, chances: (the others, _KEPT)."""

    pieces: np.ndarray
    start: int
    likely: np.ndarray
    chances: np.ndarray


class Rows:
    """The rows of the answers in files, and of conversations (`plain`) all of which is learned."""

    def __init__(self, files: list[Path], vocabulary: Vocabulary, plain: list[Conversation]) -> None:
        self.training: list[Row] = []
        self.held_out: list[Row] = []
        self._plain, self._tokenizer, self._spelled = plain, vocabulary.tokenizer(), vocabulary.spelled()
        for number, record in enumerate(json.loads(line) for path in files for line in path.open(encoding="utf-8")):
            prompt = self._pieces(record["messages"], "<|im_start|>assistant\n")
            if "top" in record:
                found = self._chances(*(np.frombuffer(base64.b64decode(record[key]), _PACKED[key]) for key in _PACKED))
            else:
                pieces = self._tokenizer.encode(record["answer"]).ids + [_END] * record["ended"]
                found = [{piece: 1.0} for piece in pieces]
            if found and len(prompt) + len(found) <= _LONGEST:
                (self.training if number % _HELD_OUT else self.held_out).append(_row(prompt, found))

    def _pieces(self, messages: Conversation, end: str = "") -> list[int]:
        said = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return self._tokenizer.encode(said + end).ids[: _LONGEST + 1]

    def _chances(self, ids: np.ndarray, top: np.ndarray, logp: np.ndarray) -> list[dict[int, float]]:
        """Where the answer's pieces stand: that piece itself, and first pieces of what else was likely."""
        found: list[dict[int, float]] = []
        chances = np.exp(logp.reshape(len(ids), -1).astype(np.float32))
        for token, likely, weights in zip(ids, top.reshape(chances.shape), chances, strict=True):
            first, *rest = self._spelled[token]
            place = {first: 1 - _SHARE}
            for other, weight in zip(likely, _SHARE * weights / weights.sum(), strict=True):
                piece = self._spelled[other][0]
                place[piece] = place.get(piece, 0.0) + float(weight)
            found += [place, *({piece: 1.0} for piece in rest)]
        return found

    def batches(self, dice: np.random.Generator, size: int, share: float) -> Iterator[Batch]:
        """Every training row once and plain ones, which are `share` of all; those of like length stand together."""
        rows, count = list(self.training), int(len(self.training) * share / (1 - share))
        for number in dice.permutation(len(self._plain))[:count]:
            first, *rest = self._pieces(self._plain[number])
            rows.append(_row([first], [{piece: 1.0} for piece in rest]))
        rows.sort(key=lambda row: len(row.pieces) + dice.integers(24))
        ends = np.cumsum([len(row.pieces) for row in rows]) // size
        for part in dice.permutation(np.unique(ends)):
            yield batch([rows[number] for number in np.flatnonzero(ends == part)])


def _row(prompt: list[int], found: list[dict[int, float]]) -> Row:
    likely, weights = np.zeros((len(found), _KEPT), np.int64), np.zeros((len(found), _KEPT), np.float32)
    for place, chances in enumerate(found):
        best = sorted(chances.items(), key=lambda item: -item[1])[:_KEPT]
        likely[place, : len(best)], weights[place, : len(best)] = zip(*best, strict=True)
    pieces = np.array([*prompt, *(next(iter(chances)) for chances in found)], np.int64)
    return Row(pieces, len(prompt), likely, weights / weights.sum(1, keepdims=True))


def batch(rows: list[Row]) -> Batch:
    """Ids (B, L), padded behind; which of the B L positions predict, and what: likely, chances (N, _KEPT)."""
    ids = np.zeros((len(rows), max(len(row.pieces) for row in rows)), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row.pieces)] = row.pieces
    at = [place * ids.shape[1] + np.arange(row.start - 1, len(row.pieces) - 1) for place, row in enumerate(rows)]
    parts = ids, np.concatenate(at), np.concatenate([r.likely for r in rows]), np.concatenate([r.chances for r in rows])
    return tuple(map(torch.from_numpy, parts))
