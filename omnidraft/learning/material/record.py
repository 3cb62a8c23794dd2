"""One answer as training material, and its compact form on disk.

A `Record` says what the drafter read, which pieces stood for which target token, and what the target thought at each
position. It knows nothing of torch, of expansions or of where it is stored. The bytes are zlib over byte planes behind
a JSON header: nothing in them can run code on load.

Precision on disk: log probabilities to 1/512 nat at most (0.2% of a probability), candidates below `LEAST` join `rest`.
"""

from __future__ import annotations

import json
import struct
import time as clock
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np

from omnidraft.decoding.events import Captured, Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, StorageError
from omnidraft.learning.adapters.serving import Choice
from omnidraft.prompting.prompt import RawText, ends_without_space, prompt_ids
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.storage.files import read_json
from omnidraft.vocab import PairMap, Translator

MAGIC = b"ODR1"
LEAST = 1e-5  # a candidate below this is worth less than its three bytes; its mass goes to `rest`
STEPS_PER_NAT = 256  # rounding to the nearest step: at most 1/512 nat off
LARGEST = 64 << 20  # bytes of one unpacked record; more is damage or an attack


@dataclass(frozen=True)
class Record:
    """One answer of one target. n target tokens, m drafter pieces, c candidates in all.

    prompt: drafter prompt ids, (p,) int32. targets: verified target ids, end of generation included, (n,) int32.
    pieces: drafter ids served behind the prompt, (m,) int32. spans: how many of `pieces` close each target token,
    (n,) int32, summing to m; 0 for control tokens and for all but the last token a split piece spells.
    counts: candidates kept per token, (n,) int32, 0 where none was captured; ids and logprobs: (c,) int32 / float32,
    most probable first, temperature 1, unfiltered; rest: probability outside the candidates, (n,) float32.
    leading_space: the first token's pieces were written as if a space stood before it. drafter: fingerprint of the
    drafter's vocabulary, in which prompt, pieces and `first` are; "" if an earlier program did not say.
    """

    chat: str
    target: str
    vocabulary: str
    prompt: np.ndarray
    targets: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray
    counts: np.ndarray
    ids: np.ndarray
    logprobs: np.ndarray
    rest: np.ndarray
    first: tuple[tuple[int, ...], ...] = ()
    leading_space: bool = False
    time: float = 0.0
    drafter: str = ""

    def __post_init__(self) -> None:
        n = len(self.targets)
        if not len(self.spans) == len(self.counts) == len(self.rest) == n:
            raise StorageError(f"a replay record of {n} tokens has arrays of other lengths")
        if int(self.spans.sum()) != len(self.pieces) or not int(self.counts.sum()) == len(self.ids) == len(
            self.logprobs
        ):
            raise StorageError("a replay record's spans or candidate counts do not add up")
        if self.leading_space and n and len(self.first) != int(self.counts[0]):
            raise StorageError("a replay record lacks the expansions of its first position's candidates")


def gather_candidates(candidates: Sequence[Captured | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(counts, ids, logprobs, rest) of a list of captured positions, small candidates moved into `rest`."""
    counts, ids, logprobs, rest = [], [], [], []
    for one in candidates:
        if one is None:
            counts.append(0)
            rest.append(1.0)
            continue
        keep = one.logprobs >= np.log(LEAST)
        counts.append(int(keep.sum()))
        ids.append(one.ids[keep])
        logprobs.append(one.logprobs[keep])
        rest.append(float(one.rest) + float(np.exp(one.logprobs[~keep]).sum()))
    return (np.array(counts, np.int32), _join(ids, np.int32), _join(logprobs, np.float32), np.array(rest, np.float32))


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)


def encode(record: Record) -> bytes:
    """The record's bytes on disk; `decode` is its inverse up to the precision in the module's docstring."""
    starts = _starts(record.counts)
    steps = np.rint(np.maximum(-record.logprobs, 0) * STEPS_PER_NAT).astype(np.int64)
    steps[1:] -= np.where(starts[1:], 0, steps[:-1].copy()) if len(steps) > 1 else 0
    first_lengths = [len(e) for e in record.first]
    arrays = {
        "prompt": record.prompt,
        "targets": record.targets,
        "pieces": record.pieces,
        "spans": record.spans,
        "counts": record.counts,
        "ids": record.ids,
        "steps": np.maximum(steps, 0),
        "rest": np.rint(-np.log(np.clip(record.rest, 1e-12, 1.0)) * STEPS_PER_NAT),
        "first_lengths": np.array(first_lengths, np.int64),
        "first": np.array([d for e in record.first for d in e], np.int64),
    }
    planes, header = [], {name: getattr(record, name) for name in _SCALARS}
    header["arrays"] = []
    for name, array in arrays.items():
        width, data = _planes(array)
        header["arrays"].append([name, len(array), width])
        planes.append(data)
    head = json.dumps(header, separators=(",", ":")).encode()
    return MAGIC + zlib.compress(struct.pack("<I", len(head)) + head + b"".join(planes), 6)


_SCALARS = ("chat", "target", "vocabulary", "leading_space", "time", "drafter")
_GONE = ("extra", "task", "temperature")  # which earlier programs wrote


def decode(data: bytes) -> Record:
    """The record behind `data`; StorageError for anything `encode` did not write (a pickle is never loaded)."""
    if bytes(data[:4]) != MAGIC:
        raise StorageError("a replay entry was not written by this program and is not read")
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(bytes(data[4:]), LARGEST)
        if not unpacker.eof:
            raise ValueError("cut off, or larger than any answer")
        (length,) = struct.unpack_from("<I", raw)
        header = read_json(raw[4 : 4 + length])
        facts = {name: value for name, value in header.items() if name not in ("arrays", *_GONE)}
        return _build(facts, _read_planes(raw, 4 + length, header["arrays"]))
    except (ValueError, zlib.error, struct.error, KeyError, TypeError) as error:
        raise StorageError(f"a replay entry is damaged: {error}") from error


def _build(header: dict, arrays: dict[str, np.ndarray]) -> Record:
    counts = arrays["counts"].astype(np.int32)
    steps = arrays["steps"]
    sums = np.cumsum(steps)
    begins = np.cumsum(counts) - counts
    base = np.zeros(len(steps), np.int64)
    filled = counts > 0
    if len(steps):
        base = np.repeat((sums - steps)[begins[filled]], counts[filled])
    bounds = np.cumsum(arrays["first_lengths"])
    first = tuple(tuple(map(int, part)) for part in np.split(arrays["first"], bounds[:-1])) if len(bounds) else ()
    columns: dict[str, Any] = {
        name: arrays[name].astype(np.int32) for name in ("prompt", "targets", "pieces", "spans", "ids")
    }
    return Record(
        **header,
        first=first,
        counts=counts,
        logprobs=(-(sums - base) / STEPS_PER_NAT).astype(np.float32),
        rest=np.exp(-arrays["rest"] / STEPS_PER_NAT).astype(np.float32),
        **columns,
    )


def _starts(counts: np.ndarray) -> np.ndarray:
    """(c,) bool: where a new position's candidates begin."""
    starts = np.zeros(int(counts.sum()), bool)
    starts[(np.cumsum(counts) - counts)[counts > 0]] = True
    return starts


def _planes(array: np.ndarray) -> tuple[int, bytes]:
    """Non-negative integers as byte planes, least significant first: zlib then sees runs of equal high bytes."""
    values = np.asarray(array).astype("<u8")
    width = max(1, (int(values.max()).bit_length() + 7) // 8) if len(values) else 1
    return width, np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8)[:, :width].T).tobytes()


def _read_planes(raw: bytes, at: int, shapes: list) -> dict[str, np.ndarray]:
    arrays = {}
    for name, count, width in shapes:
        if not (count >= 0 and 1 <= width <= 8 and at + count * width <= len(raw)):
            raise ValueError("an array runs past the end")
        wide = np.zeros((count, 8), np.uint8)
        wide[:, :width] = np.frombuffer(raw, np.uint8, count * width, at).reshape(width, count).T
        arrays[name] = wide.reshape(-1).view("<u8").astype(np.int64)
        at += count * width
    return arrays


# From a finished answer to a replay record. It knows nothing of where it goes.


CAPTURE = 48  # top ids kept per position
LONGEST_PROMPT = 1024  # drafter ids kept in front of an answer; training sees at most a window of them


@dataclass(frozen=True)
class Pairing:
    """The drafter and target at work. template: the drafter's own; target: the model's name."""

    pair: PairMap
    template: ChatTemplate
    target: str
    choice: Choice

    def serving(self, choice: Choice) -> Pairing:
        return replace(self, choice=choice)


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished answer; tokens carry the captured distributions."""

    request: AnswerRequest
    tokens: Sequence[Token]
    finished: Finished


def record_of(answer: Answered, pairing: Pairing) -> Record | None:
    """The answer as training material; None if it is empty, the drafter cannot spell any of it, or its template refuses
    the conversation.

    Pieces are what the drafter's context held: E(t) for every token, except that an accepted split keeps the one piece
    it was drafted as.
    """
    request, tokens, pair = answer.request, answer.tokens, pairing.pair
    if isinstance(request.prompt, RawText) or not any(token.candidates is not None for token in tokens):
        return None
    messages = list(request.prompt)
    try:
        prompt = prompt_ids(pairing.template, pair.drafter, messages)
        # The first token is spelled with a space then (see `Drafting`).
        virtual_space = ends_without_space(pairing.template.render(messages))
    except ModelError:
        return None
    translator = Translator(pair, None)
    spans = list[tuple[int, ...]]()
    for i, served in enumerate(_served(pair, tokens)):
        if i == 0 and virtual_space and len(served) == 1 and pair.target.pieces[tokens[0].id]:
            served = [_first(translator, tokens[0].id)]
        spans += served
    pieces = list(chain.from_iterable(spans))
    if not pieces or not prompt:
        return None
    counts, ids, logprobs, rest = gather_candidates([token.candidates for token in tokens])
    leading = virtual_space and bool(counts[0])
    return Record(
        chat=request.source or "", target=pairing.target, vocabulary=pair.target.fingerprint, time=clock.time(),
        drafter=pair.drafter.fingerprint, prompt=np.array(prompt[-LONGEST_PROMPT:], np.int32),
        targets=np.array([t.id for t in tokens], np.int32), pieces=np.array(pieces, np.int32),
        spans=np.array(list(map(len, spans)), np.int32), counts=counts, ids=ids, logprobs=logprobs, rest=rest,
        leading_space=leading,
        first=tuple(_first(translator, int(t)) for t in ids[: counts[0]]) if leading else (),
    )  # fmt: skip


def _first(translator: Translator, target_id: int) -> tuple[int, ...]:
    """Pieces of an answer's first token behind a prompt that ends without white space."""
    data = translator.pair.target.pieces[target_id]
    try:
        return tuple(translator.first_drafter_ids(data)) if data else translator.drafter_ids(target_id)
    except ValueError:
        return translator.drafter_ids(target_id)


def _served(pair: PairMap, tokens: Sequence[Token]) -> list[list[tuple[int, ...]]]:
    """Spans of pieces in token order, in groups: one token's own, or those of a run of accepted split tokens."""
    groups, at = [], 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and tokens[end].origin == "split":
            end += 1
        if end > at:
            groups.append(_split_run(pair, [token.id for token in tokens[at:end]]))
        else:
            end = at + 1
            groups.append([pair.expansions[tokens[at].id]])
        at = end
    return groups


def _split_run(pair: PairMap, ids: list[int]) -> list[tuple[int, ...]]:
    """Which single pieces spelled a run of split tokens; E(t) for tokens where none ends on a token's end."""
    spans: list[tuple[int, ...]] = []
    data = [pair.target.pieces[t] for t in ids]
    while data:
        ends = list(accumulate(map(len, data)))
        found = None
        for count in range(len(data), 1, -1):
            piece = pair.drafter.by_bytes.get(b"".join(data[:count])) if ends[count - 1] else None
            if piece is not None and pair.splits(piece) == tuple(ids[len(spans) : len(spans) + count]):
                found = (count, piece)
                break
        count, piece = found or (1, None)
        spans += [()] * (count - 1)
        spans.append((piece,) if piece is not None else pair.expansions[ids[len(spans)]])
        data = data[count:]
    return spans
