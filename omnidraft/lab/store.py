"""Drift runs on disk: one folder a run, its state written whole after every prompt, so that a run survives anything.

    <runs>/<id>/run.json       plan and points so far
    <runs>/<id>/ngrams.sqlite  the run's own n-gram cache

Holds ids of prompts, never their text or an answer's; where the drafter learns, replay and adapters lie beside it.
Knows nothing of models.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.schedule import Schedule
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.files import read, read_json, reason, write_atomically
from omnidraft.storage.paths import ProfilePaths, make_folder

FORMAT, VERSION = "omnidraft-drift", 1
CACHES = {"seeded": "seeded n-gram cache", "empty": "n-gram cache from empty", "off": "no n-gram cache"}
Status = Literal["new", "running", "stopped", "failed", "finished"]
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class Options:
    """How the prompts of a schedule are answered.

    cache: the n-gram cache is seeded from the vocabularies, starts "empty" (the paper's), or is "off".
    draft_length: drafter tokens a round, None for the adaptive length. plain: answer every prompt without the drafter
    too and report the speedup (twice the time). learning: the drafter learns from every answer as in
    the app.
    """

    cache: str = "seeded"
    draft_length: int | None = 4
    plain: bool = False
    learning: bool = False
    max_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    threads: int = 0

    @property
    def about(self) -> str:
        """How a run answers its prompts, in a few words."""
        length = "adaptive draft length" if self.draft_length is None else f"draft length {self.draft_length}"
        return f"{CACHES[self.cache]}, {'learning' if self.learning else 'no learning'}, {length}"

    def __post_init__(self) -> None:
        if self.cache not in CACHES:
            raise SettingsError(f"cache must be one of {', '.join(CACHES)}, not {self.cache!r}.")
        if self.draft_length is not None and not 1 <= self.draft_length <= 64:
            raise SettingsError(f"draft_length must be 1 to 64, or None for adaptive, not {self.draft_length}.")
        if not 0 <= self.threads <= 1024:
            raise SettingsError(f"threads must be 0 to 1024, not {self.threads}.")
        SamplingSettings(temperature=self.temperature, max_tokens=self.max_tokens, seed=self.seed)


@dataclass(frozen=True, slots=True)
class Point:
    """One answered prompt.

    index counts from 0 over the run, segment from 0. acceptance: accepted / proposed, None if nothing was proposed.
    Rates are of the decoding alone, prefill excluded, cut where an answer begins to loop (`degenerate`). speedup: over
    plain decoding of the same prompt with the same models, None if that was not asked for. cache_entries: n-grams in
    the cache afterwards, seeds included; cache_learned: without seeds. switch: the first prompt of a later segment.
    seconds: wall time of the prompt, plain answer and training included.
    """

    index: int
    segment: int
    target: str
    task: str
    prompt: str
    proposed: int
    accepted: int
    acceptance: float | None
    tokens: int
    passes: int
    tokens_per_pass: float
    tokens_per_second: float
    plain_tokens_per_second: float | None
    speedup: float | None
    cache_entries: int
    cache_learned: int
    switch: bool
    degenerate: bool
    adapter: str | None
    seconds: float


@dataclass(slots=True)
class RunState:
    """Everything a run needs. targets: file or folder of every target the schedule names."""

    id: str
    schedule: Schedule
    targets: dict[str, str]
    drafter: str
    options: Options
    created: float
    status: Status = "new"
    points: list[Point] = field(default_factory=list)

    @property
    def done(self) -> int:
        return len(self.points)

    @property
    def total(self) -> int:
        return self.schedule.total

    def as_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def runs_folder(paths: ProfilePaths) -> Path:
    """Where a profile keeps its drift runs."""
    return paths.root / "drift"


class RunStore:
    """The runs below one folder; the folder is made with the first run."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def create(self, schedule: Schedule, targets: Mapping[str, Path], drafter: Path, options: Options) -> RunState:
        """A new run, stored."""
        now = time.time()
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(2)}"
        paths = {target: str(Path(path).resolve()) for target, path in targets.items()}
        state = RunState(name, schedule, paths, str(Path(drafter).resolve()), options, now)
        make_folder(self.folder)
        make_folder(self.run_folder(name))
        self.save(state)
        return state

    def save(self, state: RunState) -> None:
        """Replace the stored state as a whole."""
        text = json.dumps(state.as_dict(), ensure_ascii=False, separators=(",", ":"))
        write_atomically(self.run_folder(state.id) / "run.json", text.encode())

    def load(self, run: str) -> RunState:
        """StorageError if there is no such run or its file is not one."""
        path = self.run_folder(run) / "run.json"
        try:
            data = read_json(read(path))
            return _state(data, run)
        except FileNotFoundError:
            raise StorageError(f"There is no drift run {run}.") from None
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {reason(error)}.") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SettingsError):
            raise StorageError(f"{path} is damaged or was written by another version.") from None

    def runs(self) -> list[RunState]:
        """Every readable run, the newest first."""
        try:
            names = sorted((p.name for p in self.folder.iterdir() if _ID.fullmatch(p.name)), reverse=True)
        except OSError:
            return []
        found = []
        for name in names:
            with suppress(StorageError):  # a broken run must not hide the others
                found.append(self.load(name))
        return found

    def delete(self, run: str) -> None:
        """Remove a run with its cache."""
        try:
            shutil.rmtree(self.run_folder(run))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"The drift run {run} was not removed: {reason(error)}.") from error

    def run_folder(self, run: str) -> Path:
        """The folder of a run; StorageError for what is no run's name (it may come from outside)."""
        if not _ID.fullmatch(run):
            raise StorageError(f"There is no drift run {run[:60]}.")
        return self.folder / run


def _state(data: dict[str, Any], run: str) -> RunState:
    if (data["format"], data["version"], data["id"]) != (FORMAT, VERSION, run):
        raise ValueError("not this run")
    return RunState(
        run, Schedule.from_dict(data["schedule"]), dict(data["targets"]), data["drafter"],
        Options(**{name: value for name, value in data["options"].items() if name in Options.__slots__}),
        data["created"], data["status"], [Point(**point) for point in data["points"]],
    )  # fmt: skip


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
