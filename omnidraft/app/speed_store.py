"""Keeps what was measured about speed and acceptance: per pair of model files, settings and machine.

One JSON file in the cache folder; it may be deleted at any time. Holds numbers only, nothing of what was said.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import monotonic, sleep

from omnidraft.decoding.knowledge import Knowledge
from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.file_lock import FileLock
from omnidraft.storage.files import write_atomically
from omnidraft.storage.json_text import read_json

KINDS = ("greedy", "sampled")
SPEED_FILE = "speed.json"  # in the cache folder
_VERSION = 4  # 4: keys name the target alone, for what is known of it with any drafter
_PATIENCE = 1.0  # seconds to wait for another program that writes, which takes it milliseconds


class SpeedStore:
    """`path`: the JSON file. A damaged one counts as empty: everything in it can be measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, key: str) -> Knowledge | None:
        return self._known(self.all().get(key))

    @staticmethod
    def _known(entry: dict | None) -> Knowledge | None:
        try:
            return Knowledge.from_dict(entry) if entry is not None else None
        except (AttributeError, KeyError, TypeError, ValueError, SettingsError):
            return None

    def save(self, key: str, knowledge: Knowledge) -> None:
        """Keep it, unless its costs were measured while others had the processor: then what was kept stays."""
        if knowledge.cost.kept is None:
            return
        with self._alone():
            entries = self.all() | {key: knowledge.as_dict()}
            write_atomically(self._path, json.dumps({"version": _VERSION, "entries": entries}, indent=1).encode())

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
        found: dict[Path, float] = {}
        for target in targets:
            with suppress(OSError):  # it was removed since it was listed
                mark = f":{_alone(target, settings)}:"
                known = [self._known(entry) for key, entry in entries.items() if mark in key]
                speeds = [1 / one.cost.least_seconds for one in known if one is not None]
                found |= {target: median(speeds)} if speeds else {}
        return found

    def all(self) -> dict[str, dict]:
        """Every entry by key, as stored."""
        try:
            data = read_json(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return data["entries"] if isinstance(data, dict) and data.get("version") == _VERSION else {}


class PairSpeed:
    """The loaded pair's part of a store: what earlier sessions measured about it, recalled and kept. `profile` tells
    apart whose drafter it is: what each learned is accepted at its own rate."""

    def __init__(self, store: SpeedStore, profile: Path) -> None:
        self._store, self._profile = store, profile
        self._pair: tuple[Path, Path | None, ModelSettings] | None = None
        self._keys: dict[str, str] = {}

    def of(self, target: Path, drafter: Path | None, model: ModelSettings) -> None:
        """Speak of this pair from now on."""
        self._pair = (target, drafter, model)

    def recall(self, adapter: str | None, knowledge: dict[str, Knowledge]) -> None:
        """Fill in what is known of the pair with such an adapter; what is not stays as it is in `knowledge`."""
        assert self._pair is not None
        target, drafter, model = self._pair
        mine = f"{self._profile.resolve()}/{adapter or '-'}"
        for kind in KINDS:
            self._keys[kind] = speed_key(target, drafter, model, mine, kind == "greedy")
            if (known := self._store.load(self._keys[kind])) is not None:
                knowledge[kind] = known

    def keep(self, knowledge: dict[str, Knowledge]) -> None:
        with suppress(StorageError, OSError):  # it can be measured again, so a full disk shall not stand in the way
            for kind, known in knowledge.items():
                self._store.save(self._keys[kind], known)


def speed_key(target: Path, drafter: Path | None, settings: ModelSettings, adapter: str | None, greedy: bool) -> str:
    """Names everything the numbers depend on; equal keys mean that they still hold."""
    parts = [_identity(target), _identity(drafter) if drafter else "-", adapter or "-", *_machine(settings)]
    names = f"{target.stem}+{drafter.stem if drafter else 'none'}"
    return f"{names}:{_alone(target, settings)}:{_digest(parts)}:{'greedy' if greedy else 'sampled'}"


def _alone(target: Path, settings: ModelSettings) -> str:
    """Names everything that the speed of plain decoding depends on."""
    return _digest([_identity(target), *_machine(settings)])


def _machine(settings: ModelSettings) -> list[str]:
    loaded = f"{settings.threads}/{settings.n_gpu_layers}/{settings.kv_type}/{settings.device}/{settings.dtype}"
    loaded += f"/{settings.exact}"
    if settings.workers:
        loaded += f"/{settings.workers}/{settings.split}"
    return [f"{platform.node()}/{platform.machine()}/{os.cpu_count()}", loaded]


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}"
