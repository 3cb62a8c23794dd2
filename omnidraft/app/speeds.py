"""How fast a model writes here without drafting, as it was measured."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from time import monotonic, sleep
from typing import Any

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.sizes import pass_bytes
from omnidraft.decoding.events import Round
from omnidraft.decoding.pace import Pace
from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import mark, read_json, write_atomically
from omnidraft.storage.scratch import FileLock

# How fast an answer would have been decoded plainly, from its own plain rounds. Every answer has plain rounds
# (decoding/events.py says what they are); nothing is measured for the comparison alone. Both sides are taken from the
# same answer wherever it has enough of them: what else a machine does changes a pass's time by more than drafting
# does.


log = logging.getLogger("omnidraft.speed")
ENOUGH = 8  # plain rounds before their mean is worth showing
_STALL = 3.0  # times the median, what a longer round is counted as: it was interrupted, plain or drafted alike


@dataclass(frozen=True, slots=True)
class PlainSpeed:
    """Tokens per second an answer would have had plainly; error: half its 95% interval, relative to it."""

    speed: float
    error: float


@dataclass(slots=True)
class RoundTimes:
    """Wall times of one answer's rounds, in seconds, and the tokens they made.

    first: of the first round, None before it. plain: rounds as plain decoding has them. turned: plain rounds behind a
    wider pass. drafted: all others. tokens: of all rounds.
    """

    first: float | None = None
    plain: list[float] = field(default_factory=list)
    turned: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)
    tokens: int = 0

    def take(self, event: Round) -> None:
        self.tokens += event.emitted
        seconds = event.draft + event.translate + event.verify + event.other
        if event.plain:
            self.plain.append(seconds)
        elif event.drafted or event.proposed:
            self.drafted.append(seconds)
        elif self.first is None:
            self.first = seconds
        else:
            self.turned.append(seconds)

    def speedup(self, recent: Sequence[float] = ()) -> float | None:
        """The time plain decoding would have taken, over the time it took.

        recent: plain rounds of this answer and those before, seconds. None if nothing was drafted, or too little is
        known. Never more than the tokens of a pass: plain rounds that say so come from a slower moment of the machine.
        """
        plain = self._compared(recent)
        if not self.drafted or len(plain) < ENOUGH:
            return None
        first = [] if self.first is None else [self.first]
        took = sum(first) + sum(_steady(self.plain)) + sum(_steady(self.turned, plain)) + sum(_steady(self.drafted))
        instead = sum(first) + (self.tokens - len(first)) * fmean(_steady(plain))
        passes = len(first) + len(self.plain) + len(self.turned) + len(self.drafted)
        return min(instead / took, self.tokens / passes) if took > 0 else None

    def error(self, recent: Sequence[float] = ()) -> float:
        """Half the 95% interval of the mean plain round that `speedup` compares with, relative to it."""
        plain = _steady(self._compared(recent))
        return 1.96 * stdev(plain) / sqrt(len(plain)) / fmean(plain) if len(plain) > 1 else 1.0

    def _compared(self, recent: Sequence[float]) -> Sequence[float]:
        return self.plain if len(self.plain) >= ENOUGH else recent


def _steady(times: Sequence[float], usual: Sequence[float] = ()) -> list[float]:
    """The times, stalls cut: by what is `usual`, else by each other."""
    longest = _STALL * median(usual or times) if times else 0.0
    return [min(t, longest) for t in times]


# Keeps what was measured about speed and acceptance: per pair of model files, settings and machine. One JSON file in
# the cache folder; it may be deleted at any time. Holds numbers only, nothing of what was said.


SPEED_FILE = "speed.json"  # in the cache folder
_VERSION = 6  # 6: a pair's pace in all kinds of sampling
_PATIENCE = 1.0  # seconds to wait for another program that writes, which takes it milliseconds


class SpeedStore:
    """`path`: the JSON file. A damaged one counts as empty: everything in it can be measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told = False  # what is wrong with it, once

    def load(self, key: str) -> Pace | None:
        return self._known(self.all().get(key))

    def _known(self, entry: Any) -> Pace | None:
        try:
            return Pace.from_dict(entry) if entry is not None else None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SettingsError):
            self._unusable()
            return None

    def _unusable(self) -> None:
        if not self._told:
            log.warning("%s, or some of it, cannot be used; it is measured again.", self._path)
        self._told = True

    def save(self, key: str, pace: Pace) -> None:
        """Keep it, unless it was measured while others had the processor: then what was kept stays. It can be measured
        again, so a full disk shall not stand in the way."""
        if pace.stored is None:
            return
        with suppress(StorageError, OSError), self._alone():
            entries = self.all() | {key: pace.as_dict()}
            write_atomically(self._path, json.dumps({"version": _VERSION, "entries": entries}, indent=1).encode())

    def save_target(self, target: Path, settings: ModelSettings, pace: Pace) -> None:
        """What the target's passes take, whoever drafts."""
        with suppress(OSError):
            self.save(speed_key(target, None, settings, None), pace.with_drafter(pace.step))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other program changes the file."""
        lock, end = FileLock(self._path.with_suffix(".lock")), monotonic() + _PATIENCE
        while not lock.acquire() and monotonic() < end:
            sleep(0.01)
        try:
            yield
        finally:
            lock.release()

    def plain(self, settings: ModelSettings, targets: Iterable[Path]) -> dict[Path, float]:
        """Tokens per second of plain decoding as they were measured here, with whatever drafter; of those that were."""
        entries = self.all()
        known = {target: self._of(target, settings, "", entries) for target in targets}
        return {target: median(1 / one.least_seconds for one in paces) for target, paces in known.items() if paces}

    def target(self, target: Path, settings: ModelSettings) -> Pace | None:
        """What the target's passes take, with whatever drafter that was measured; of several the one that knows most
        widths."""
        return max(self._of(target, settings), key=lambda one: len(one.passes.figures), default=None)

    def pair(self, target: Path, drafter: Path, settings: ModelSettings) -> Pace | None:
        """What was seen of a target with a drafter of this name, whatever that had learned; the most of it."""
        known = self._of(target, settings, f"{target.stem}+{drafter.stem}")
        return max(known, key=lambda one: one.averages.first.weight, default=None)

    def _of(
        self, target: Path, settings: ModelSettings, names: str = "", entries: Mapping[str, Any] | None = None
    ) -> list[Pace]:
        """Of this target, with any drafter or as `names` says; none of one that is gone."""
        with suppress(OSError):
            of, entries = f"{names}:{_alone(target, settings)}:", self.all() if entries is None else entries
            known = [self._known(entry) for key, entry in entries.items() if of in key]
            return [one for one in known if one is not None]
        return []

    def all(self) -> dict[str, Any]:
        """Every entry by key, as stored."""
        try:
            data = read_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            data = None
        entries = data.get("entries") if isinstance(data, dict) else None
        if not isinstance(entries, dict):
            self._unusable()
            return {}
        return entries if data.get("version") == _VERSION else {}


def speed_key(target: Path, drafter: Path | None, settings: ModelSettings, adapter: str | None) -> str:
    """Names everything the numbers depend on; equal keys mean that they still hold. adapter: what the drafter has
    learned, and whose it is."""
    parts = [mark(target), mark(drafter) if drafter else "-", adapter or "-", *_machine(settings)]
    names = f"{target.stem}+{drafter.stem if drafter else 'none'}"
    return f"{names}:{_alone(target, settings)}:{_digest(parts)}"


def _alone(target: Path, settings: ModelSettings) -> str:
    """Names everything that the speed of plain decoding depends on."""
    return _digest([mark(target), *_machine(settings)])


def _machine(settings: ModelSettings) -> list[str]:
    loaded = f"{settings.threads}/{settings.n_gpu_layers}/{settings.kv_type}/{settings.device}/{settings.dtype}"
    loaded += f"/{library.in_use()}"
    if settings.workers:
        loaded += f"/{settings.workers}/{settings.split}"
    return [f"{platform.node()}/{platform.machine()}/{os.cpu_count()}", loaded]


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def read_bytes(model: ModelInfo) -> int:
    """What a pass reads; of a folder all of it."""
    return model.file_size if model.path.is_dir() else pass_bytes(model)
