"""What a drift run asks of whom: segments of prompts, with the target or the task changing between them.

The bundled schedules follow the paper's Figures 5 and 6: a step from one task to another with one target, and a target
that leaves and comes back, within a vocabulary family (a, a2, a) and across two (a, b, a). Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import TASKS, Prompt, in_turn, load_prompts

MIXED = "mixed"  # the bundled tasks in turn
MAX_PROMPTS = 100_000
_A, _A2, _B = "tiny-target-a", "tiny-target-a2", "tiny-target-b"


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` prompts of one source (a task, "mixed", or a prompt file) put to one target (a name or a path)."""

    target: str
    prompts: str
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_PROMPTS:
            raise SettingsError(f"The number of prompts must be a whole number from 1 to {MAX_PROMPTS:,}.")

    @property
    def task(self) -> str:
        """What to call the prompts in tables."""
        return self.prompts if self.prompts in (*TASKS, MIXED) else Path(self.prompts).stem


@dataclass(frozen=True, slots=True)
class Schedule:
    """The segments of a run, in order."""

    name: str
    segments: tuple[Segment, ...]

    @property
    def total(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def targets(self) -> list[str]:
        """Every target once, in order of appearance."""
        return list(dict.fromkeys(segment.target for segment in self.segments))

    def changed(
        self, count: int | None = None, prompts: str | None = None, targets: Sequence[str] | None = None
    ) -> Schedule:
        """The same schedule with another number, or another source, of prompts in every segment, or other targets in
        the order they appear; SettingsError if that takes another number of them."""
        targets = self.targets if targets is None else targets
        if len(targets) != len(self.targets):
            raise SettingsError(f"The schedule {self.name} has {len(self.targets)} targets, not {len(targets)}.")
        other = dict(zip(self.targets, targets, strict=True))
        changed = (
            Segment(other[s.target], s.prompts if prompts is None else prompts, s.count if count is None else count)
            for s in self.segments
        )
        return replace(self, segments=tuple(changed))


def _schedule(name: str, *segments: tuple[str, str]) -> Schedule:
    return Schedule(name, tuple(Segment(target, source, 40) for target, source in segments))


BUNDLED = {
    schedule.name: schedule
    for schedule in (
        _schedule("step", (_A, "math"), (_A, "code")),
        _schedule("a-a2-a", (_A, MIXED), (_A2, MIXED), (_A, MIXED)),
        _schedule("a-b-a", (_A, MIXED), (_B, MIXED), (_A, MIXED)),
        _schedule("a-a-a", (_A, MIXED), (_A, MIXED), (_A, MIXED)),  # no switch: what the prompts alone do
    )
}


def choose_prompts(schedule: Schedule) -> list[Prompt]:
    """The prompt of every step; no text occurs twice, whatever its source (a repeated prompt flatters caches).

    SettingsError if a source has too few left.
    """
    left: dict[str, list[Prompt]] = {}
    seen: set[str] = set()
    chosen: list[Prompt] = []
    for number, segment in enumerate(schedule.segments, 1):
        pool = left.setdefault(segment.prompts, _source(segment.prompts)[::-1])
        found: list[Prompt] = []
        while pool and len(found) < segment.count:
            prompt = pool.pop()
            if prompt.plain not in seen:
                seen.add(prompt.plain)
                found.append(prompt)
        if len(found) < segment.count:
            raise SettingsError(
                f"Segment {number} asks for {segment.count} prompts of {segment.task}, but only {len(found)} are left; "
                "no prompt is used twice in a run."
            )
        chosen += found
    return chosen


def _source(name: str) -> list[Prompt]:
    return in_turn(map(load_prompts, TASKS)) if name == MIXED else load_prompts(name)
