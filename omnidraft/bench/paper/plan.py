"""What `bench paper` runs, in full and quickly, and how long that takes by rule of thumb. No models here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.bench.learn_plan import LearnPlan
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.config import LearningSettings

METHODS = ("dm", "hybrid", "projected")
LOSSES = ("ngram", "dm_nll", "dm", "hybrid", "both_kl", "projected")
TABLES = ("methods", "speed", "adapting", "sizes", "cache", "losses", "ranks", "eviction", "growth")
_UPDATE_SECONDS = 8.0  # of a processor, an update of eight answers of the bundled drafter
_FULL_PASS = {"F32": 0.073, "folder": 0.085, "F16": 0.039, "Q8_0": 0.026, "Q4_0": 0.025}  # the 0.5b shape on two cores
_WARM = 20.0  # loading, enlarging and measuring a pair in a regime
_LARGER = 2.2  # a pass of the 1b shape over one of the 0.5b shape


@dataclass(frozen=True)
class Plan:
    """learned: prompts, lengths, seeds and data of the acceptance tables, as `bench learn` takes them. rank_list: the
    last one is as wide as the drafter, so that its matrices are of full rank. timed: regimes; timed_prompts: of a cell;
    timed_targets, side_tasks: how many of them are timed, and looked at by the tables of one target.
    shapes: of targets whose speeds are compared; tables: which ones to make.
    """

    learned: LearnPlan
    losses: Sequence[str] = LOSSES
    rank_list: Sequence[int] = (8, 16, 32, 64, 128, 192)
    timed: Sequence[str] = ("0.5b-folder", "0.5b-F32")
    timed_prompts: int = 10
    timed_targets: int = 2
    timed_tokens: int = 64
    side_tasks: int = 4
    shapes: Sequence[str] = ("0.5b", "1b")
    drafter_shapes: Sequence[str] = ("68m", "160m")
    quantized: str = "0.5b-Q4_0"
    tables: Sequence[str] = TABLES

    def __post_init__(self) -> None:
        if unknown := [name for name in self.tables if name not in TABLES]:
            raise SettingsError(f"There is no table {unknown[0]}; known are {', '.join(TABLES)}.")

    def side(self, **changes: object) -> LearnPlan:
        """The plan of tables that look at the first target alone, one seed."""
        small = replace(self.learned, targets=self.learned.targets[:1], tasks=self.learned.tasks[: self.side_tasks])
        return replace(small, seeds=1, **changes)  # type: ignore[arg-type]

    def ranked(self, rank: int) -> LearnPlan:
        """Likewise for the ranks of adapters: on the first task."""
        plan = self.side(losses=("projected",), learning=replace(self.learned.learning, rank=rank))
        return replace(plan, tasks=plan.tasks[:1])

    def decides(self) -> dict:
        """What the tables depend on; interrupted runs must agree in it."""
        names = ("losses", "rank_list", "timed", "timed_prompts", "timed_targets", "timed_tokens", "side_tasks",
                 "shapes", "drafter_shapes", "quantized")  # fmt: skip
        values = {name: _plain(getattr(self, name)) for name in names}
        return values | {"learned": self.learned.decides() | {"tasks": [str(task) for task in self.learned.tasks]},
                         "seeds": self.learned.seeds, "threads": self.learned.threads}  # fmt: skip


def full(targets: Sequence[Path], drafter: Path, **changes: object) -> Plan:
    """The paper's tables: all tasks, three seeds."""
    return Plan(LearnPlan(targets, drafter, **_learned(**{"losses": METHODS, "train_prompts": 24} | changes)))


def quick(targets: Sequence[Path], drafter: Path, **changes: object) -> Plan:
    """Every table once, in at most a quarter of an hour on two free cores: too small to tell neighbours apart."""
    few = {"tasks": TASKS[:2], "seeds": 1, "train_prompts": 16, "test_prompts": 6, "temperatures": (0.0,)} | changes
    learned = LearnPlan(targets, drafter, **_learned(losses=("hybrid", "projected"), **few))
    return Plan(
        learned, losses=("ngram", "dm", "hybrid", "projected"), rank_list=(8, 32, 192), timed_prompts=3,
        timed_targets=1, timed_tokens=32, side_tasks=1, shapes=("0.5b", "1b"), drafter_shapes=("68m",),
    )  # fmt: skip


def _learned(**values: object) -> dict:
    given = {name: value for name, value in values.items() if value is not None}
    return {"curve": False, "reference": False, "train_tokens": 96, "learning": LearningSettings(), **given}


def estimate(plan: Plan, token_seconds: float) -> dict[str, float]:
    """Seconds a table, if a token of the bundled target takes so long. Rules of thumb: within a factor of two."""
    p = plan.learned
    cells = len(p.targets) * len(p.tasks) * p.seeds
    updates = -(-p.train_prompts // p.learning.interval)
    teaching, test = updates * _UPDATE_SECONDS, p.test_prompts * p.test_tokens * token_seconds * 1.5
    answers = p.train_prompts * p.train_tokens * token_seconds
    tests = len(p.temperatures) * test
    side = plan.side_tasks
    timed = sum(_timed(plan, regime, len(p.tasks) * plan.timed_targets * 3, 3) for regime in plan.timed)
    shapes = sum(_timed(plan, f"{s}-F32", side * len(plan.drafter_shapes), 2) for s in plan.shapes)
    made = {
        "methods": cells * (answers + len(p.losses) * (teaching + tests) + 2 * tests),
        "speed": timed,
        "adapting": side * 5 * (test + 16 * p.test_tokens * token_seconds * 1.5),
        "sizes": shapes,
        "cache": len(p.targets) * 3 * len(p.tasks) * test,
        "losses": len([loss for loss in plan.losses if loss not in p.losses]) * side * (teaching + tests),
        "ranks": len(plan.rank_list) * (teaching + 3 * tests),
        "eviction": 16 * side * test,
        "growth": 5.0,
    }
    return {name: seconds for name, seconds in made.items() if name in plan.tables}


def _timed(plan: Plan, regime: str, cells: int, methods: int) -> float:
    shape, _, dtype = regime.partition("-")
    token = _FULL_PASS.get(dtype, 0.073) * (_LARGER if shape == "1b" else 1.0)
    columns = len(plan.learned.temperatures)
    return _WARM * cells + cells * columns * methods * plan.timed_prompts * plan.timed_tokens * token


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
