"""Answers of known times and runs of known points, for tests of benchmarks and of the drift lab."""

from __future__ import annotations

from omnidraft.decoding.events import Round, Statistics
from omnidraft.lab.drift import Point, Schedule, Segment
from omnidraft.lab.statistics import Trace

A = "tiny-target-a"


def trace(
    seconds: float, tokens: int = 20, proposed: int = 0, accepted: int = 0, prefill: float = 0.0, copied: int = 0
) -> Trace:
    """One round that brought all tokens."""
    done = Round(proposed, proposed, proposed, accepted, tokens, 0.0, 0.0, seconds, 0.0, copied)
    return Trace(ids=[*range(tokens)], rounds=[done], statistics=Statistics(prefill=prefill))


def run_of(*segments: list[tuple[int, int]]) -> tuple[Schedule, list[Point]]:
    """A finished run of target A with these (accepted, proposed) per prompt."""
    points = []
    for number, values in enumerate(segments):
        for place, (accepted, proposed) in enumerate(values):
            points.append(Point(
                len(points), number, A, "math", f"p{len(points)}", proposed, accepted, 20, 10, 0.2, 5,
                number > 0 and place == 0, None, 0.5,
            ))  # fmt: skip
    return Schedule("test", tuple(Segment(A, "math", len(values)) for values in segments)), points
