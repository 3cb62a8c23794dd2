"""Answers of known times and runs of known points, for tests of benchmarks and of the drift lab."""

from __future__ import annotations

from omnidraft.decoding.events import Round
from omnidraft.lab.schedule import Schedule, Segment
from omnidraft.lab.store import Options, Point, RunState
from omnidraft.lab.trace import Trace

A = "tiny-target-a"


def trace(seconds: float, tokens: int = 20, proposed: int = 0, accepted: int = 0, prefill: float = 0.0) -> Trace:
    """One round that brought all tokens."""
    done = Round(proposed, proposed, proposed, accepted, tokens, 0.0, 0.0, seconds, 0.0)
    return Trace(ids=[*range(tokens)], rounds=[done], prefill=prefill)


def state_of(*segments: list[tuple[int, int]]) -> RunState:
    """A finished run of target A with these (accepted, proposed) per prompt."""
    points = []
    for number, values in enumerate(segments):
        for place, (accepted, proposed) in enumerate(values):
            points.append(Point(
                len(points), number, A, "math", f"p{len(points)}", proposed, accepted,
                accepted / proposed if proposed else None, 20, 10, 2.0, 100.0, 50.0, 2.0, 5, 5,
                number > 0 and place == 0, False, None, 0.5,
            ))  # fmt: skip
    plan = Schedule("test", tuple(Segment(A, "math", len(values)) for values in segments))
    options = Options(plain=True)
    return RunState("20260101-000000-abcd", plan, {A: "a.gguf"}, "d.gguf", options, 0.0, "finished", points)
