"""What the drafter learns from: answers in its own pieces, and what the target might have written at each of them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .cut import Vocabulary
from .prompts import Conversation

LONGEST = 384
_SHARE = 0.5  # of the chances is the target's, the rest is the text's
_KEPT = 16  # likeliest pieces at a position
_HELD_OUT = 32  # one answer of so many
_END = 2


class Row(NamedTuple):
    """A conversation. start: how many of its pieces are not learned; likely, chances: (the others, _KEPT)."""

    pieces: np.ndarray
    start: int
    likely: np.ndarray
    chances: np.ndarray


class Batch(NamedTuple):
    """ids (B, L), padded behind; `at` those of the B L positions that predict, and what: (N, _KEPT) with chances."""

    ids: Tensor
    at: Tensor
    likely: Tensor
    chances: Tensor


class Rows:
    """The rows of files that may still grow, and of conversations (`plain`) all of which is learned."""

    def __init__(self, files: list[Path], vocabulary: Vocabulary, plain: list[Conversation]) -> None:
        self.training: list[Row] = []
        self.held_out: list[Row] = []
        self._read, self._plain, self._count = dict.fromkeys(files, 0), plain, 0
        self._tokenizer, self._spelled = vocabulary.tokenizer(), vocabulary.spelled()

    def read(self) -> None:
        """Take in what was written since."""
        for path, start in self._read.items():
            with path.open("rb") as file:
                file.seek(start)
                while (line := file.readline()).endswith(b"\n"):  # else it is still being written
                    self._take(json.loads(line))
                    self._read[path] += len(line)

    def _take(self, record: dict[str, Any]) -> None:
        prompt = self._pieces(record["messages"], "<|im_start|>assistant\n")
        if "top" in record:
            found = self._chances(record)
        else:
            found = [{piece: 1.0} for piece in self._tokenizer.encode(record["answer"]).ids + [_END] * record["ended"]]
        pieces = [*prompt, *(next(iter(chances)) for chances in found)]
        if len(pieces) > LONGEST or not found:
            return
        self._count += 1
        if self._count % _HELD_OUT:
            self.training.append(_row(pieces, len(prompt), found))
        elif not record["temperature"]:
            self.held_out.append(_row(pieces, len(prompt), found))

    def _pieces(self, messages: Conversation, end: str = "") -> list[int]:
        said = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return self._tokenizer.encode(said + end).ids

    def _chances(self, record: dict[str, Any]) -> list[dict[int, float]]:
        """Behind the answer's pieces one by one, itself first: those likely there, first pieces of what was likely."""
        ids = _unpacked(record["ids"], np.uint16)
        tops = _unpacked(record["top"], np.uint16).reshape(len(ids), -1)
        logp = _unpacked(record["logp"], np.float16).reshape(tops.shape).astype(np.float32)
        found: list[dict[int, float]] = []
        for token, top, weights in zip(ids, tops, np.exp(logp), strict=True):
            first, *rest = self._spelled[token]
            chances = {first: 1 - _SHARE}
            for other, weight in zip(top, _SHARE * weights / weights.sum(), strict=True):
                piece = self._spelled[other][0]
                chances[piece] = chances.get(piece, 0.0) + float(weight)
            found += [chances, *({piece: 1.0} for piece in rest)]
        return found

    def batches(self, dice: np.random.Generator, size: int, share: float) -> Iterator[Batch]:
        """Every training row once and plain ones, which are `share` of all; those of like length stand together."""
        count = min(int(len(self.training) * share / (1 - share)), len(self._plain))
        rows = list(self.training)
        for number in dice.choice(len(self._plain), count, replace=False) if count else ():
            pieces = self._pieces(self._plain[number])[:LONGEST]
            rows.append(_row(pieces, 1, [{piece: 1.0} for piece in pieces[1:]]))
        rows.sort(key=lambda row: len(row.pieces) + dice.integers(24))
        parts: list[list[Row]] = [[]]
        for row in rows:
            if sum(len(other.pieces) for other in parts[-1]) + len(row.pieces) > size:
                parts.append([])
            parts[-1].append(row)
        for number in dice.permutation(len(parts)):
            yield batch(parts[number])


def _row(pieces: list[int], start: int, found: list[dict[int, float]]) -> Row:
    likely, weights = np.zeros((len(found), _KEPT), np.int64), np.zeros((len(found), _KEPT), np.float32)
    for place, chances in enumerate(found):
        best = sorted(chances.items(), key=lambda item: -item[1])[:_KEPT]
        likely[place, : len(best)], weights[place, : len(best)] = zip(*best, strict=True)
    return Row(np.array(pieces, np.int64), start, likely, weights / weights.sum(1, keepdims=True))


def batch(rows: list[Row]) -> Batch:
    """Rows side by side."""
    ids = np.zeros((len(rows), max(len(row.pieces) for row in rows)), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row.pieces)] = row.pieces
    at = [place * ids.shape[1] + np.arange(row.start - 1, len(row.pieces) - 1) for place, row in enumerate(rows)]
    parts = ids, np.concatenate(at), np.concatenate([r.likely for r in rows]), np.concatenate([r.chances for r in rows])
    return Batch(*map(torch.from_numpy, parts))


def _unpacked(text: str, kind: type) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)
