"""Which version of a store serves, as a small file beside the versions says: `current.json`, replaced atomically."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.storage.files import read, write_atomically
from omnidraft.storage.json_text import read_json

CURRENT = "current.json"
VERSION_NAME = re.compile(r"v\d{6,}")


@dataclass(frozen=True)
class Pointer:
    """version: the one served, None for the bare drafter; rejected: rolled back, never chosen again; through: newest
    replay ordinal that a refused or rolled-back update has used up, so that it is not tried again at once; highest:
    number there ever was, since figures of a forgotten version must not become another one's; warm: without a version,
    whether what was learned for another vocabulary serves (None: unless something was rejected)."""

    version: str | None = None
    rejected: tuple[str, ...] = ()
    through: int = 0
    highest: int = 0
    warm: bool | None = None


def read_pointer(folder: Path) -> Pointer | None:
    """What the file says; None if it is missing or damaged."""
    try:
        values = read_json(read(folder / CURRENT))
        version, rejected = values["version"], tuple(map(str, values["rejected"]))
        if version is not None and not VERSION_NAME.fullmatch(version):
            return None
        through, highest, warm = int(values["through"]), int(values.get("highest", 0)), values.get("warm")
        return Pointer(version, rejected, through, highest, warm if isinstance(warm, bool) else None)
    except (OSError, ValueError, KeyError, TypeError, StorageError):
        return None


def write_pointer(folder: Path, pointer: Pointer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CURRENT, json.dumps(asdict(pointer)).encode())
