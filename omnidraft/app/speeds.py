"""How fast models write here and how often drafts are accepted, as it was measured: kept per pair of model files,
settings and machine. Holds numbers only, nothing of what was said."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.sizes import pass_bytes
from omnidraft.decoding.pace import Pace
from omnidraft.errors import SettingsError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import mark
from omnidraft.storage.known import Known

SPEED_FILE = "speeds.json"  # in the cache folder; another name where its numbers come to mean something else


class SpeedStore:
    """folder: the cache's. What is damaged there counts as empty: all of it can be measured again."""

    def __init__(self, folder: Path) -> None:
        self._known: Known[dict] = Known(SPEED_FILE, lambda entry: isinstance(entry, dict))
        self._known.keep_in(folder)

    def load(self, key: str) -> Pace | None:
        return _pace(self._known.all().get(key))

    def save(self, key: str, pace: Pace) -> None:
        """Keep it, unless it was measured while others had the processor: then what was kept stays."""
        if pace.stored is not None:
            self._known.put(key, pace.as_dict())

    def save_target(self, target: Path, settings: ModelSettings, pace: Pace) -> None:
        """What the target's passes take, whoever drafts."""
        with suppress(OSError):
            self.save(speed_key(target, None, settings, None), pace.with_drafter(pace.step))

    def plain(self, settings: ModelSettings, targets: Iterable[Path]) -> dict[Path, float]:
        """Tokens per second of plain decoding as they were measured here, with whatever drafter; of those that were."""
        entries = self._known.all()
        known = {target: _of(entries, target, settings) for target in targets}
        return {target: median(1 / one.least_seconds for one in paces) for target, paces in known.items() if paces}

    def target(self, target: Path, settings: ModelSettings) -> Pace | None:
        """What the target's passes take, with whatever drafter that was measured; of several the one that knows most
        widths."""
        return max(_of(self._known.all(), target, settings), key=lambda one: len(one.passes.figures), default=None)

    def pair(self, target: Path, drafter: Path, settings: ModelSettings) -> Pace | None:
        """What was seen of a target with a drafter of this name, whatever that had learned; the most of it."""
        known = _of(self._known.all(), target, settings, f"{target.stem}+{drafter.stem}")
        return max(known, key=lambda one: one.averages.first.weight, default=None)


def _of(entries: Mapping[str, dict], target: Path, settings: ModelSettings, names: str = "") -> list[Pace]:
    """Of this target, with any drafter or as `names` says; none of one that is gone."""
    with suppress(OSError):
        of = f"{names}:{_alone(target, settings)}:"
        return [pace for key, entry in entries.items() if of in key and (pace := _pace(entry)) is not None]
    return []


def _pace(entry: dict | None) -> Pace | None:
    try:
        return Pace.from_dict(entry) if entry is not None else None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SettingsError):
        return None


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
