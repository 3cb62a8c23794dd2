"""What the drafter learns from: answers in its own pieces, and what the target might have written at each of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cut import Vocabulary

LONGEST = 384
_KEPT = 16  # likeliest pieces behind a position
_HELD_OUT = 32  # one answer of so many
_END = 2


@dataclass(slots=True)
class Row:
    """A conversation. pieces: ids; start: where its answer begins; likely, chances: (answer's pieces, _KEPT)."""

    pieces: np.ndarray
    start: int
    likely: np.ndarray
    chances: np.ndarray


@dataclass(slots=True)
class Batch:
    """ids (B, L), padded behind; `at` those of the B L positions that predict, and what: (N, _KEPT) with chances."""

    ids: Tensor
    at: Tensor
    likely: Tensor
    chances: Tensor


class Rows:
    """The rows of files that may still grow. share: how much of the chances is the target's, the rest is the text's."""

    def __init__(
        self, files: list[Path], vocabulary: Vocabulary, share: float, plain: Iterable[list[dict[str, str]]] = ()
    ) -> None:
        self.training: list[Row] = []
        self.held_out: list[Row] = []
        self._files, self._share, self._read = files, share, dict.fromkeys(files, 0)
        self._tokenizer, self._spelled = vocabulary.tokenizer(), vocabulary.spelled()
        self._count = 0
        self._plain = list(plain)

    def read(self) -> None:
        """Take in what was written since."""
        for path in self._files:
            with path.open("rb") as file:
                file.seek(self._read[path])
                for line in file:
                    if not line.endswith(b"\n"):  # still being written
                        break
                    self._read[path] += len(line)
                    self._take(json.loads(line))

    def _take(self, record: dict[str, Any]) -> None:
        row = self._row(record)
        if len(row.pieces) > LONGEST or len(row.likely) < 4:
            return
        self._count += 1
        if self._count % _HELD_OUT:
            self.training.append(row)
        elif not record["temperature"]:
            self.held_out.append(row)

    def _plain_row(self, messages: list[dict[str, str]]) -> Row:
        ids = np.array(self._tokenizer.encode(_said(messages)).ids[:LONGEST], np.int64)
        likely, chances = np.zeros((len(ids) - 1, _KEPT), np.int64), np.zeros((len(ids) - 1, _KEPT), np.float32)
        likely[:, 0], chances[:, 0] = ids[1:], 1
        return Row(ids, 1, likely, chances)

    def _row(self, record: dict[str, Any]) -> Row:
        prompt = self._tokenizer.encode(_said(record["messages"]) + "<|im_start|>assistant\n").ids
        if "top" in record:
            pieces, likely, chances = self._target_row(record)
        else:
            pieces = self._tokenizer.encode(record["answer"]).ids + [_END] * record["ended"]
            likely, chances = np.zeros((2, len(pieces), _KEPT), np.float32)
            likely[:, 0], chances[:, 0] = pieces, 1
        ids = np.array([*prompt, *pieces], np.int64)
        return Row(ids, len(prompt), likely.astype(np.int64), chances.astype(np.float32))

    def _target_row(self, record: dict[str, Any]) -> tuple[list[int], np.ndarray, np.ndarray]:
        """The answer with the target's chances at the first piece of each of its tokens."""
        ids = unpacked(record["ids"], np.uint16)
        top = unpacked(record["top"], np.uint16).reshape(len(ids), -1)
        chances = np.exp(unpacked(record["logp"], np.float16).reshape(top.shape).astype(np.float32))
        pieces: list[int] = []
        found: list[dict[int, float]] = []
        for token, tokens, theirs in zip(ids, top, chances, strict=True):
            spelled = self._spelled[token]
            first = {spelled[0]: 1 - self._share}
            scale = self._share / theirs.sum()
            for other, chance in zip(tokens, theirs, strict=True):
                piece = self._spelled[other][0]
                first[piece] = first.get(piece, 0.0) + scale * float(chance)
            found += [first, *({piece: 1.0} for piece in spelled[1:])]
            pieces += spelled
        likely, weights = np.zeros((2, len(pieces), _KEPT), np.float32)
        for place, row in enumerate(found):
            best = sorted(row.items(), key=lambda item: -item[1])[:_KEPT]
            likely[place, : len(best)] = [piece for piece, _ in best]
            weights[place, : len(best)] = [chance for _, chance in best]
        return pieces, likely, weights / weights.sum(1, keepdims=True)

    def batches(self, dice: np.random.Generator, size: int, plain: float) -> Iterator[Batch]:
        """Every training row once, those of like length together, about `size` positions at a time.

        plain: what share of the rows comes from the conversations of the data, all of which is learned.
        """
        count = min(int(len(self.training) * plain / (1 - plain)), len(self._plain))
        chosen = dice.choice(len(self._plain), count, replace=False) if count else ()
        rows = [*self.training, *(self._plain_row(self._plain[number]) for number in chosen)]
        order = np.argsort([len(row.pieces) + dice.integers(24) for row in rows])
        parts = list(_parts([rows[number] for number in order], size))
        for number in dice.permutation(len(parts)):
            yield batch(parts[number])


def _said(messages: list[dict[str, str]]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def _parts(rows: list[Row], size: int) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in rows:
        if part and max(len(row.pieces), len(part[-1].pieces)) * (len(part) + 1) > size:
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def batch(rows: list[Row]) -> Batch:
    """Rows side by side."""
    longest = max(len(row.pieces) for row in rows)
    ids = np.zeros((len(rows), longest), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row.pieces)] = row.pieces
    at = [place * longest + np.arange(row.start - 1, len(row.pieces) - 1) for place, row in enumerate(rows)]
    parts = np.concatenate(at), np.concatenate([r.likely for r in rows]), np.concatenate([r.chances for r in rows])
    return Batch(torch.from_numpy(ids), *map(torch.from_numpy, parts))


def unpacked(text: str, kind: type) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)
