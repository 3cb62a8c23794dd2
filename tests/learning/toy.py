"""A vocabulary pair small enough to enumerate, and records over it."""

import numpy as np

from omnidraft.decoding.topk import Candidates
from omnidraft.learning.material.record import Record, gather_candidates
from omnidraft.learning.material.replay import ExpansionTable

DRAFTER = [b"", b"a", b"b", b"c", b"ab", b"a", b"d", b"bcd", b"</s>"]  # 0 unknown, 5 a byte token with 1's bytes
EOS = 8
TARGET = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"ca", b"cab", b"d", b"da", b"<eot>", b"<end>", b"<ctl>"]
CONTROL = 12
EXPANSIONS = [(1,), (2,), (3,), (4,), (4, 3), (2, 3), (3, 1), (3, 4), (6,), (6, 1), (EOS,), (EOS,), ()]
DIRECT = [-1, 0, 1, 2, 3, 0, 8, -1, 10]


def table() -> ExpansionTable:
    lengths = [len(e) for e in EXPANSIONS]
    flat = np.array([d for e in EXPANSIONS for d in e], np.int32)
    return ExpansionTable("toy-d", "toy-t", flat, np.concatenate([[0], np.cumsum(lengths)]), np.array(DIRECT, np.int32))


def capture(p: np.ndarray, k: int) -> Candidates:
    """The k likeliest of p, as a target's logits would be captured."""
    order = np.argsort(-p, kind="stable")[:k]
    return Candidates(order.astype(np.int32), np.log(p[order]).astype(np.float32), float(max(1 - p[order].sum(), 0)))


def record(targets: list[int], p: np.ndarray, k: int = len(TARGET), **fields) -> Record:
    """An answer `targets` with the target's distributions p, (n, V)."""
    counts, ids, logprobs, rest = gather_candidates([capture(row, k) for row in p])
    pieces = [d for t in targets for d in EXPANSIONS[t]]
    spans = [len(EXPANSIONS[t]) for t in targets]
    given = {
        "chat": "c", "target": "toy", "vocabulary": "toy-t", "prompt": np.array([1, 2, 3]),
        "targets": np.array(targets), "pieces": np.array(pieces), "spans": np.array(spans),
        "counts": counts, "ids": ids, "logprobs": logprobs, "rest": rest,
    }  # fmt: skip
    return Record(**{**given, **fields})


def random_p(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, V) distributions, peaked as a model's are; no mass on the control token."""
    p = np.exp(np.clip(rng.normal(0, 2, (n, len(TARGET))), -4, 4))  # all above `record.LEAST`
    p[:, CONTROL] = 1e-9
    return p / p.sum(1, keepdims=True)
