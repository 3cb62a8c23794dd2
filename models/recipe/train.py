"""Trains the drafter on what targets wrote; it may be stopped at any time and goes on from its last checkpoint.

A row is an answer in the drafter's own pieces, with what the target might have written where its tokens begin.
"""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers import LlamaForCausalLM

from omnidraft.vocab.vocabulary import Vocabulary as TargetVocabulary

from .answers import PACKED, Conversation
from .cut import Vocabulary

Batch = tuple[Tensor, Tensor, Tensor, Tensor]  # what `batch` makes

_SIZE = 1024  # pieces a step
_DRAFT = 4  # pieces
_LONGEST = 384
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


class Rows:
    """The rows of the answers in files, each with its target's vocabulary, and of `plain` conversations, all of which
    is learned."""

    def __init__(self, files: dict[Path, TargetVocabulary], vocabulary: Vocabulary, plain: list[Conversation]) -> None:
        self.training: list[Row] = []
        self.held_out: list[Row] = []
        self._plain, self._tokenizer = plain, vocabulary.tokenizer()
        self._lengths = [len(piece) for piece in vocabulary.ids]  # bytes: each is a letter of a byte-level piece
        for path, target in files.items():
            first = self._first_pieces(target)
            for number, record in enumerate(map(json.loads, path.open(encoding="utf-8"))):
                prompt = self._pieces(record["messages"], "<|im_start|>assistant\n")
                found = self._chances(record, target, first)
                if found and len(prompt) + len(found) <= _LONGEST:
                    (self.training if number % _HELD_OUT else self.held_out).append(_row(prompt, found))

    def _pieces(self, messages: Conversation, end: str = "") -> list[int]:
        said = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return self._tokenizer.encode(said + end).ids[: _LONGEST + 1]

    def _first_pieces(self, target: TargetVocabulary) -> list[int | None]:
        """What each of the target's tokens begins with; None: it is no text by itself."""
        texts = [piece.decode(errors="ignore") for piece in target.pieces]
        cut = [encoded.ids for encoded in self._tokenizer.encode_batch(texts)]
        return [_END if token in target.eog else ids[0] if ids else None for token, ids in enumerate(cut)]

    def _chances(
        self, record: dict[str, Any], target: TargetVocabulary, first: list[int | None]
    ) -> list[dict[int, float]]:
        """Where the answer's pieces stand: that piece itself and, where one of the target's tokens begins, too, first
        pieces of what else was likely."""
        pieces = self._tokenizer.encode(record["answer"]).ids + [_END] * record["ended"]
        found = [{piece: 1.0} for piece in pieces]
        places = dict(zip(accumulate((self._lengths[piece] for piece in pieces), initial=0), found, strict=False))
        ids, top, logp = (np.frombuffer(base64.b64decode(record[key]), kind) for key, kind in PACKED.items())
        begins = accumulate((len(target.pieces[token]) for token in ids), initial=0)
        chances = np.exp(logp.reshape(len(ids), -1).astype(np.float32))
        for begin, likely, weights in zip(begins, top.reshape(chances.shape), chances, strict=False):
            if place := places.pop(begin, None):
                (said,) = place
                place[said] = 1 - _SHARE
                for other, weight in zip(likely, _SHARE * weights / weights.sum(), strict=True):
                    if (piece := first[other]) is not None:
                        place[piece] = place.get(piece, 0.0) + float(weight)
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


@contextmanager
def rounded(model: LlamaForCausalLM) -> Iterator[None]:
    """In the block its matrices are what llama.cpp reads of them in Q5_0: gradients are taken there, steps by the exact
    ones (straight-through estimation, Bengio et al. 2013, arXiv 1308.3432)."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    exact = [parameter.data for parameter in matrices]
    for parameter in matrices:
        parameter.data = _rounded(parameter.data)
    try:
        yield
    finally:
        for parameter, data in zip(matrices, exact, strict=True):
            parameter.data = data


def _rounded(weights: Tensor) -> Tensor:
    """Of 32 neighbours the largest is -16 times their scale, and each is a whole number of times, below 16."""
    blocks = weights.view(-1, 32)
    scale = blocks.gather(1, blocks.abs().argmax(1, keepdim=True)) / -16
    times = (blocks / scale.where(scale != 0, 1) + 16.5).floor().clamp(0, 31) - 16
    return (times * scale.half()).view_as(weights)


class Training:
    """A model, its optimizer, and how long the processor has been at it: FOLDER/checkpoint.pt, FOLDER/log.jsonl."""

    def __init__(self, model: LlamaForCausalLM, folder: Path, minutes: float, rate: float) -> None:
        self.model, self.folder, self.minutes, self.rate = model, folder, minutes, rate
        embedding = model.model.embed_tokens.weight  # trained already, and every step changes it: it goes slower
        rest = [p for p in model.parameters() if p is not embedding]
        groups = [{"params": rest, "scale": 1.0}, {"params": [embedding], "scale": 0.2}]
        self.optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        self.steps, self.learned, self.seconds = 0, 0, 0.0
        self.path = folder / "checkpoint.pt"
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.learned, self.seconds = state["progress"]

    @property
    def left(self) -> float:
        """The share of the minutes that is not over."""
        return 1 - self.seconds / 60 / self.minutes

    def run(self, rows: Rows, export: Callable[[], None], every: float = 300) -> None:
        """Train for the minutes there are; every so many seconds a checkpoint, a line in the log and an export."""
        kept, losses = self.seconds, []
        while self.left > 0:
            plain = max(0.0, 1.4 * self.left - 0.7)  # the language first, then more and more what targets write
            for part in rows.batches(np.random.default_rng(self.steps), _SIZE, plain):
                losses.append(self._step(part))
                if self.seconds >= kept + every or self.left <= 0:
                    self._keep(losses, rows)
                    export()
                    kept, losses = self.seconds, []
                    break

    def _step(self, part: Batch) -> float:
        started = time.process_time()
        for group in self.optimizer.param_groups:
            group["lr"] = group["scale"] * self.rate * min(1.0, (self.steps + 1) / 20, self.left / 0.6)
        ids, at, likely, chances = part
        with rounded(self.model):
            logits = self._logits(ids, at)
            loss = (logits.logsumexp(1) - (logits.gather(1, likely) * chances).sum(1)).mean()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps, self.learned = self.steps + 1, self.learned + len(at)
        self.seconds += time.process_time() - started
        return float(loss.detach())

    def _logits(self, ids: Tensor, at: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            return linear(hidden.flatten(0, 1)[at], self.model.model.embed_tokens.weight).float()

    @torch.no_grad()
    def held_out(self, rows: list[Row]) -> tuple[float, float]:
        """How often its likeliest piece is the text's, and what share of drafts of four pieces would stand."""
        right, accepted, drafts = [False], 0, 0
        for ids, at, _, _ in map(batch, ([row] for row in rows)):
            stands = (self._logits(ids, at).argmax(1) == ids.flatten()[at + 1]).tolist()
            right += stands
            while stands:
                run = [*stands[:_DRAFT], False].index(False)
                accepted, drafts, stands = accepted + run, drafts + 1, stands[run + 1 :]
        return sum(right) / len(right), accepted / max(_DRAFT * drafts, 1)

    def _keep(self, losses: list[float], rows: Rows) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"progress": [self.steps, self.learned, self.seconds]}, self.path.with_suffix(".new"))
        os.replace(self.path.with_suffix(".new"), self.path)
        with rounded(self.model):
            agreed, accepted = self.held_out(rows.held_out[:150])
        line = {"minutes": self.seconds / 60, "steps": self.steps, "pieces": self.learned}
        line |= {"loss": sum(losses) / len(losses), "agreement": agreed, "acceptance": accepted}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({key: round(value, 4) for key, value in line.items()}) + "\n")
