"""What a drift run tells while it goes on, and how long it may still take."""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.lab.store import Point, RunState, Status


@dataclass(frozen=True, slots=True)
class Loading:
    """Models are being loaded for a segment (counted from 0)."""

    segment: int
    target: str


@dataclass(frozen=True, slots=True)
class Step:
    """A prompt was answered. seconds_left is an estimate from the prompts so far."""

    point: Point
    done: int
    total: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The run finished, was stopped, or failed."""

    status: Status


DriftEvent = Loading | Step | Ended


def seconds_left(state: RunState) -> float:
    """Estimate: prompts still to come times the mean time of those so far, of the same target where there are any."""
    if not state.points:
        return 0.0
    times: dict[str, list[float]] = {}
    for point in state.points:
        times.setdefault(point.target, []).append(point.seconds)
    overall = [point.seconds for point in state.points]
    left, done = 0.0, state.done
    for segment in state.schedule.segments:
        skipped = min(done, segment.count)
        done -= skipped
        known = times.get(segment.target, overall)
        left += (segment.count - skipped) * sum(known) / len(known)
    return left
