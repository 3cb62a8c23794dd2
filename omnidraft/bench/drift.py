"""`bench drift`: acceptance and speed while tasks or targets change: every prompt as it is answered, and every part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from omnidraft.app.models_list import choose_target, need_drafter
from omnidraft.bench.plans import Drift, Work
from omnidraft.lab.drift import BUNDLED, DriftRun, Loading, Plan, Point, Schedule
from omnidraft.lab.drift_lab import segment_rows
from omnidraft.lab.results import Columns, Report, Table
from omnidraft.storage.paths import DEFAULT_PROFILE, DataHome, make_folder
from omnidraft.storage.scratch import Scratch


def run(plan: Drift, work: Work) -> Iterator[Report]:
    asked, points = asked_of(plan, work.home), list[Point]()
    folder = work.home.profile(DEFAULT_PROFILE).root / "drift"
    make_folder(folder.parent)
    make_folder(folder)
    with Scratch("run-", folder) as place:
        for event in DriftRun(work.home, place, asked).events():
            if isinstance(event, Loading):
                work.told(f"Loading {event.target}.")
            else:
                points.append(event)
                yield report(asked.schedule, points)
                work.found(event, _line(event, asked.schedule.total))


def asked_of(plan: Drift, home: DataHome) -> Plan:
    """The run; its targets are called by their schedule's names, else by those of their files, or as they were given
    where these are alike."""
    schedule = BUNDLED[plan.schedule].changed(plan.prompts, plan.task, plan.target or None)
    files = [choose_target(name, home) for name in schedule.targets]
    if plan.target and len({file.stem for file in files}) == len(files):
        schedule = schedule.changed(targets=[file.stem for file in files])
    targets = {name: str(file) for name, file in zip(schedule.targets, files, strict=True)}
    drafter = need_drafter(plan.drafter, home, files[0])
    return Plan(schedule, targets, str(drafter), plan.learn, plan.max_tokens, plan.threads)


def _line(p: Point, total: int) -> str:
    rate = f"{p.accepted / p.proposed:.2f}" if p.proposed else "   -"
    return (
        f"{'| ' if p.switch else '  '}{p.index + 1:4} of {total}  {p.target:16} {p.prompt:14} acc {rate}  "
        f"tok/pass {p.tokens / max(p.passes, 1):4.2f}  {p.cache_learned} n-grams learned"
    )


def report(schedule: Schedule, points: Sequence[Point]) -> Report:
    rows = [asdict(row) for row in segment_rows(schedule, points)]
    return Report({"finished": len(points) == schedule.total, "segments": rows}, [Table.of("", rows, COLUMNS)])


COLUMNS: Columns = {
    "target": "target", "task": "task", "prompts": "prompts", "accepted": "acceptance", "before": "before",
    "first": "first", "last": "last", "recovered": "recovery", "tokens/pass": "tokens_per_pass",
    "tokens/s": "tokens_per_second", "n-grams learned": "cache_learned",
}  # fmt: skip
