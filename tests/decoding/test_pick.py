"""The coupled picker: the target's filters narrow its choice, its noise points where the target's draw will."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding.pick import CoupledPicker
from omnidraft.decoding.sampling import Sampler
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys


def row(**logits: float) -> np.ndarray:
    """A drafter's row with these logits by piece, undraftable everywhere else."""
    out = np.full(toys.DRAFTER.size, -np.inf, np.float32)
    for piece, value in logits.items():
        out[toys.DRAFTER.by_bytes[piece.encode()]] = value
    return out


def picks(sampling: SamplingSettings, logits: np.ndarray, seeds: int = 60) -> set[bytes]:
    translator = toys.translator(cached=False)
    found = [CoupledPicker(translator, seed, sampling).pick(logits, [], 3) for seed in range(seeds)]
    return {toys.DRAFTER.pieces[piece] for piece in found}


@pytest.mark.parametrize(("filters", "expected"), [
    ({}, {b"a", b"b", b"c"}),
    ({"top_k": 2}, {b"a", b"b"}),
    ({"top_k": 1}, {b"a"}),
    ({"top_p": 0.7}, {b"a", b"b"}),
    ({"min_p": 0.5}, {b"a", b"b"}),
    ({"min_p": 0.9}, {b"a"}),
])  # fmt: skip
def test_only_what_passes_the_targets_filters_is_drafted(filters, expected):
    logits = row(a=np.log(0.45), b=np.log(0.35), c=np.log(0.2))
    assert picks(SamplingSettings.unfiltered(temperature=1.0, **filters), logits) == expected


def test_with_the_same_distribution_drafter_and_target_draw_the_same():
    """Over tokens that are one piece each, and with filters that leave both the same few."""
    translator = toys.translator(cached=False)
    sampling = SamplingSettings.unfiltered(temperature=0.8, top_k=3)
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    drafted = row(**{piece: np.log(share) for piece, share in shares.items()})
    target = np.full(toys.TARGET.size, -30.0, np.float32)
    for piece, share in shares.items():
        target[translator.pair.direct[toys.DRAFTER.by_bytes[piece.encode()]]] = np.log(share)
    drawn = set()
    for seed in range(200):
        piece = CoupledPicker(translator, seed, sampling).pick(drafted, [], 5)
        token = Sampler(sampling, toys.TARGET, seed).draw(target.copy(), 5)
        assert translator.pair.direct[piece] == token
        drawn.add(token)
    assert len(drawn) == 3
