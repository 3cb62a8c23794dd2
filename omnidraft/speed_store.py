"""Keeps what was measured about speed and acceptance: per pair of model files, settings and machine.

One JSON file in the cache folder; it may be deleted at any time. Holds numbers only, nothing of what was said.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path

from omnidraft.config import ModelSettings
from omnidraft.decoding.adaptive import Knowledge
from omnidraft.errors import SettingsError
from omnidraft.files import write_atomically

_VERSION = 1


class SpeedStore:
    """`path`: the JSON file. A damaged one counts as empty: everything in it can be measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, key: str) -> Knowledge | None:
        entry = self._read().get(key)
        if entry is None:
            return None
        try:
            return Knowledge.from_dict(entry)
        except (KeyError, TypeError, ValueError, SettingsError):
            return None

    def save(self, key: str, knowledge: Knowledge) -> None:
        entries = self._read()
        entries[key] = knowledge.as_dict()
        write_atomically(self._path, json.dumps({"version": _VERSION, "entries": entries}, indent=1).encode())

    def all(self) -> dict[str, dict]:
        """Every entry by key, as stored."""
        return self._read()

    def _read(self) -> dict[str, dict]:
        try:
            data = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return data["entries"] if isinstance(data, dict) and data.get("version") == _VERSION else {}


def speed_key(target: Path, drafter: Path | None, settings: ModelSettings, adapter: str | None, greedy: bool) -> str:
    """Names everything the numbers depend on; equal keys mean that they still hold."""
    machine = f"{platform.node()}/{platform.machine()}/{os.cpu_count()}"
    loaded = f"{settings.threads}/{settings.n_gpu_layers}/{settings.kv_type}"
    parts = [_identity(target), _identity(drafter) if drafter else "-", adapter or "-", machine, loaded]
    digest = hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
    names = f"{target.stem}+{drafter.stem if drafter else 'none'}"
    return f"{names}:{digest}:{'greedy' if greedy else 'sampled'}"


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}"
