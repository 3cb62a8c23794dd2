"""`bench drift --report`: what a switch costs and how soon it is over, under every condition side by side.

The schedules of the published Figures 5 and 6 are run with and without n-gram cache, with and without learning, and
with an adapter for each target vocabulary or one for all. Every run is a drift run of its own below one folder, which a
report that is started again goes on with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from omnidraft.bench.columns import column_of, label
from omnidraft.bench.plot import Line, Panel
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work
from omnidraft.lab import progress
from omnidraft.lab import runs as drift
from omnidraft.lab.export import moving_average, pooled_acceptance
from omnidraft.lab.schedule import Schedule, choose_prompts, digest
from omnidraft.lab.store import Options, Point, RunState
from omnidraft.settings.config import LearningSettings

WINDOW = 4  # prompts an average covers here: the figures ask for recoveries within five
LEVEL = 8  # prompts before a switch that tell its level
SOON = 5  # prompts behind a switch that are told apart, to be held against the same prompts without one
RECOVERED = 0.9
NONE, PER_TARGET, SHARED = "none", "per-target", "shared"
SCHEDULES = ("step", "a-a2-a", "a-b-a", "a-a-a")


@dataclass(frozen=True, slots=True)
class Variant:
    """A schedule under one condition. cache: as the options say, or off; learning: NONE, PER_TARGET or SHARED (the
    adapters' scope)."""

    schedule: Schedule
    cache: bool
    learning: str

    @property
    def name(self) -> str:
        return f"{self.schedule.name}-{'cache' if self.cache else 'no-cache'}-{self.learning}"

    @property
    def condition(self) -> str:
        taught = {NONE: "no learning", PER_TARGET: "learning", SHARED: "learning, one adapter"}[self.learning]
        return f"{'n-gram cache' if self.cache else 'no cache'}, {taught}"

    def options(self, asked: Options) -> Options:
        kept = asked.cache if asked.cache != "off" else Options().cache
        values = asdict(asked) | {"cache": kept if self.cache else "off", "learning": self.learning != NONE}
        return Options(**values)


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch of one run. before: acceptance of the last LEVEL prompts ahead of it; own: of the last prompts of the
    segment before that had this target and task, None if there is none. lowest: of any WINDOW prompts in a row soon
    behind it; drop: how much of `before` that is below it. first, second: of the first SOON prompts behind it, and of
    as many behind those. recovery, return_: prompts until the average of the last WINDOW reaches 90% of `before` and of
    `own`, None if it never does.
    """

    schedule: str
    condition: str
    cache: bool
    learning: str
    segment: int
    target: str
    task: str
    prompts: int
    before: float | None
    own: float | None
    lowest: float | None
    drop: float | None
    first: float | None
    second: float | None
    recovery: int | None
    return_: int | None
    last: float | None


def variants(schedules: Sequence[Schedule]) -> list[Variant]:
    """One adapter for all differs from one each only where the target changes."""
    made = []
    for schedule in schedules:
        scopes = (NONE, PER_TARGET, SHARED) if len(schedule.targets) > 1 else (NONE, PER_TARGET)
        made += [Variant(schedule, cache, scope) for scope in scopes for cache in (False, True)]
    return made


def run(
    wanted: Sequence[Variant], work: Work, targets: Mapping[str, Path], drafter: Path, asked: Options
) -> Iterator[tuple[Variant, RunState]]:
    """Each variant's run when it is finished; those of an earlier report are taken as they are."""
    folder = work.cells.folder / "runs"
    for number, variant in enumerate(wanted, 1):
        schedule, options = variant.schedule, variant.options(asked)
        own = {name: targets[name] for name in schedule.targets}
        depends = {"options": options, "schedule": schedule, "prompts": digest(choose_prompts(schedule))}
        begin = partial(_begun, work.home, folder, schedule, own, drafter, options)
        name = work.cells.get(variant.name, depends, begin)
        going = drift.resume(work.home, folder, name)
        if going.state.done < going.state.total:
            work.told(f"{variant.name}: run {number} of {len(wanted)}, {going.state.total - going.state.done} prompts")
            for event in going.events(_learner(variant, going.state)):
                if isinstance(event, progress.Step) and event.done % 10 == 0:
                    work.told(f"  {event.done} of {event.total}, {event.seconds_left:.0f} s left")
        yield variant, going.state


def _begun(*run: Any) -> str:
    """The name of a new run."""
    return drift.start(*run).state.id


def _learner(variant: Variant, state: RunState) -> drift.Learner | None:
    if variant.learning == NONE:
        return None
    from omnidraft.lab.learning import RunLearner  # brings torch

    return RunLearner(state, LearningSettings(scope=variant.learning))


def switches(variant: Variant, state: RunState) -> list[Switch]:
    """What each switch of a run did."""
    segments: dict[int, list[Point]] = {}
    for point in state.points:
        segments.setdefault(point.segment, []).append(point)
    return [_switch(variant, segments, number) for number in segments if number]


def _switch(variant: Variant, segments: Mapping[int, Sequence[Point]], number: int) -> Switch:
    points, listed = segments[number], variant.schedule.segments
    here = listed[number]
    like = [n for n in range(number) if (listed[n].target, listed[n].task) == (here.target, here.task)]
    before = pooled_acceptance(segments[number - 1][-LEVEL:])
    own = pooled_acceptance(segments[like[-1]][-LEVEL:]) if like else None
    averages = moving_average(points, WINDOW)
    soon = [value for value in averages[WINDOW - 1 : 2 * LEVEL] if value is not None]
    lowest = min(soon, default=None)
    drop = max(0.0, before - lowest) if before is not None and lowest is not None else None
    return Switch(
        variant.schedule.name, variant.condition, variant.cache, variant.learning, number, here.target, here.task,
        len(points), before, own, lowest, drop, pooled_acceptance(points[:SOON]),
        pooled_acceptance(points[SOON : 2 * SOON]), recovery(averages, before), recovery(averages, own),
        pooled_acceptance(points[-LEVEL:]),
    )  # fmt: skip


def recovery(averages: Sequence[float | None], level: float | None) -> int | None:
    """Prompts until the average, once its window is full, reaches RECOVERED of the level."""
    if level is None:
        return None
    for number, value in enumerate(averages, 1):
        if number >= min(WINDOW, len(averages)) and value is not None and value >= RECOVERED * level:
            return number
    return None


def report(finished: Sequence[tuple[Variant, RunState]], asked: Options) -> Report:
    """A table and a picture a schedule."""
    found = [one for variant, state in finished for one in switches(variant, state)]
    length = "adaptive draft length" if asked.draft_length is None else f"draft length {asked.draft_length}"
    sampling = label(column_of(f"{asked.temperature:g}"))
    said = (f"{sampling}, {length}, at most {asked.max_tokens} tokens; averages of {WINDOW} prompts, levels of "
            f"{LEVEL}. Adapters are kept for each target vocabulary, which targets of one family share.")  # fmt: skip
    names = dict.fromkeys(variant.schedule.name for variant, _ in finished)
    tables = [_table(name, [one for one in found if one.schedule == name]) for name in names]
    panels = [_panel([one for one in finished if one[0].schedule.name == name]) for name in names]
    return Report({"options": asdict(asked), "switches": found}, tables, [said], panels)


def _table(name: str, found: Sequence[Switch]) -> Table:
    head = [
        f"{name}: switch to", "condition", "before", "lowest", "drop", f"prompts 1 to {SOON}",
        f"{SOON + 1} to {2 * SOON}", "90% of before after", "own level", "90% of it after", "at the end",
    ]  # fmt: skip
    return Table("", head, [
        [f"{one.target}, {one.task}", one.condition, one.before, one.lowest, one.drop, one.first, one.second,
         _count(one.recovery, one, one.before), one.own, _count(one.return_, one, one.own), one.last] for one in found
    ])  # fmt: skip


def _count(value: int | None, one: Switch, level: float | None) -> str | None:
    if level is None:
        return None
    return f"{value}" if value is not None else f"not in {one.prompts}"


def _panel(finished: Sequence[tuple[Variant, RunState]]) -> Panel:
    """Moving averages of acceptance, dashed without n-gram cache, broken and marked at the switches."""
    segments = finished[0][0].schedule.segments
    ends = list(accumulate(segment.count for segment in segments))
    lines = []
    for variant, state in finished:
        x, y = list[float](), list[float | None]()
        for number, end in enumerate(ends):
            here = [point for point in state.points if point.segment == number]
            x += [*(point.index + 1 for point in here), end + 0.5]
            y += [*moving_average(here), None]
        lines.append(Line(variant.condition, x, y, dashed=not variant.cache))
    title = " -> ".join(f"{s.target}, {s.task}" for s in segments)
    return Panel(title, "prompts", "acceptance", lines, [end + 0.5 for end in ends[:-1]])
