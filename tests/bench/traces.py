"""Answers of known times for tests of benchmarks."""

from __future__ import annotations

from omnidraft.decoding.events import Round
from omnidraft.lab.trace import Trace


def trace(seconds: float, tokens: int = 20, proposed: int = 0, accepted: int = 0, prefill: float = 0.0) -> Trace:
    """One round that brought all tokens."""
    done = Round(proposed, proposed, proposed, accepted, tokens, 0.0, 0.0, seconds, 0.0)
    return Trace(ids=[*range(tokens)], rounds=[done], prefill=prefill)
