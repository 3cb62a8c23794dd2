"""Material the learning tests share."""

import numpy as np

from omnidraft.decoding.topk import Candidates
from omnidraft.learning.material.record import Record, gather_candidates


def random_record(
    rng: np.random.Generator, tokens: int, k: int = 48, target_vocabulary: int = 150_000, **fields
) -> Record:
    """A record of peaked random distributions, as a language model's are."""
    captured = []
    for _ in range(tokens):
        logits = np.sort(rng.normal(0, rng.uniform(0.5, 5), k))[::-1]
        logp = logits - np.log(np.exp(logits).sum()) + np.log1p(-0.02)
        captured.append(
            Candidates(rng.choice(target_vocabulary, k, replace=False).astype(np.int32), logp.astype(np.float32), 0.02)
        )
    counts, ids, logprobs, rest = gather_candidates(captured)
    spans = rng.integers(0, 4, tokens)
    defaults = {
        "chat": "c1", "target": "t", "vocabulary": "v", "time": 12.5, "spans": spans,
        "prompt": rng.integers(0, 32000, 40), "targets": rng.integers(0, target_vocabulary, tokens),
        "pieces": rng.integers(0, 32000, int(spans.sum())),
        "counts": counts, "ids": ids, "logprobs": logprobs, "rest": rest,
    }  # fmt: skip
    return Record(**{**defaults, **fields})
