"""What a drift run asks of whom: segments of prompts, with the target or the task changing between them.

The bundled schedules follow the paper's Figures 5 and 6: a step from one task to another with one target, and a target
that leaves and comes back, within a vocabulary family (a, a2, a) and across two (a, b, a). Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import TASKS, Prompt, in_turn, load_prompts
from omnidraft.storage.files import read_json

MIXED = "mixed"  # the bundled tasks in turn
MAX_SEGMENTS = 64
MAX_PROMPTS = 100_000
_A, _A2, _B = "tiny-target-a", "tiny-target-a2", "tiny-target-b"


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` prompts of one source (a task, "mixed", or a prompt file) put to one target (a name or a path)."""

    target: str
    prompts: str
    count: int

    def __post_init__(self) -> None:
        for name in ("target", "prompts"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise SettingsError(f"A segment's {name} must be a text that is not empty.")
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= MAX_PROMPTS:
            raise SettingsError(f"The number of prompts (count) must be a whole number from 1 to {MAX_PROMPTS:,}.")

    @property
    def task(self) -> str:
        """What to call the prompts in tables."""
        return self.prompts if self.prompts in (*TASKS, MIXED) else Path(self.prompts).stem


@dataclass(frozen=True, slots=True)
class Schedule:
    """The segments of a run, in order."""

    name: str
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.segments) <= MAX_SEGMENTS:
            raise SettingsError(f"A schedule needs 1 to {MAX_SEGMENTS} segments, not {len(self.segments)}.")

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

    @classmethod
    def from_dict(cls, data: Any, where: str = "The schedule") -> Schedule:
        """Of its fields as JSON has them; SettingsError says what is wrong. `where` names the source in it."""
        segments = data.get("segments") if isinstance(data, dict) else None
        if not isinstance(segments, list) or not all(isinstance(s, dict) for s in segments):
            raise SettingsError(f'{where} must be an object with a list "segments" of objects.')
        names = {"target", "prompts", "count"}
        for segment in segments:
            if set(segment) != names:
                raise SettingsError(f'{where}: a segment has exactly "target", "prompts" and "count".')
        return cls(str(data.get("name") or "custom"), tuple(Segment(**segment) for segment in segments))


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


def load_schedule(name_or_file: str | Path) -> Schedule:
    """A bundled schedule by name, or one of a JSON file; the file's prompt files may stand beside it."""
    if str(name_or_file) in BUNDLED:
        return BUNDLED[str(name_or_file)]
    path = Path(name_or_file)
    try:
        data = read_json(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise StorageError(f"There is no schedule {path}; bundled are {', '.join(BUNDLED)}.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is not a JSON file.") from None
    schedule = Schedule.from_dict(data, str(path))
    segments = (replace(s, prompts=_beside(path, s.prompts)) for s in schedule.segments)
    return replace(schedule, segments=tuple(segments))


def _beside(schedule: Path, source: str) -> str:
    if source in (*TASKS, MIXED):
        return source
    given = Path(source).expanduser()
    return str((given if given.exists() else schedule.parent / given).resolve())


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
