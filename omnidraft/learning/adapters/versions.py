"""Adapter versions as folders on disk: what is written beside one, whether it is whole, written for sure, removed.

Which of a store's versions serves is said by a small file beside them, `current.json`, replaced atomically. Names
beginning with a dot are no versions: `.new-PID...` is being written or removed by that process and swept once it is
gone; `.damaged-NAME` was found damaged and is kept for whoever wants to look.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import psutil

from omnidraft.errors import StorageError
from omnidraft.storage.files import as_stored, erase, put_in, read, read_json, sync_folder, write_atomically
from omnidraft.storage.vault import vault_of

ADAPTER = "adapter.gguf"  # what llama.cpp serves, F16
WEIGHTS = "weights.npz"  # what training continues from, F32
META = "meta.json"
SCHEMA = 1


@dataclass(frozen=True)
class Meta:
    """Facts about one version.

    drafter: fingerprint of the drafter's file; vocabulary: the targets' vocabulary; target: name of the
    target seen last; parent: version trained from (None: the bare drafter); through: newest replay ordinal it has seen;
    answers, tokens: how much the update that published it trained on (drafter pieces, repetitions counted); loss: its
    last, nats; before, after: acceptance estimates on answers not learned from, by slice ("old", "new"); chats:
    conversations this version or any it descends from was trained on; seconds: of processor time; sha256: of the files.
    """

    drafter: str
    vocabulary: str
    target: str = ""
    parent: str | None = None
    through: int = 0
    rank: int = 32
    loss_name: str = ""
    loss: float = 0.0
    answers: int = 0
    tokens: int = 0
    seconds: float = 0.0
    created: float = 0.0
    before: dict[str, dict[str, float]] = field(default_factory=dict)
    after: dict[str, dict[str, float]] = field(default_factory=dict)
    chats: tuple[str, ...] = ()
    sha256: dict[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Meta:
        """StorageError for anything but a description this or an earlier program wrote."""
        try:
            values = read_json(data)
            if values["schema"] > SCHEMA:
                raise StorageError("an adapter was written by a newer version of OmniDraft")
            known = {f.name for f in fields(cls)}
            values["chats"] = tuple(values.get("chats", ()))
            return cls(**{name: value for name, value in values.items() if name in known})
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"an adapter's description is damaged: {error}") from error


@dataclass(frozen=True)
class Version:
    """One adapter on disk: a folder named v000001, v000002, ..."""

    path: Path
    meta: Meta

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def number(self) -> int:
        return int(self.path.name[1:])

    @property
    def adapter(self) -> Path:
        return self.path / ADAPTER

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS


def read_version(path: Path) -> Version | None:
    """The version in this folder; None if anything of it is missing or not as it was written."""
    try:
        meta = Meta.from_json(read(path / META))
        intact = bool(meta.sha256) and all(digest(path / name) == known for name, known in meta.sha256.items())
        return Version(path, meta) if intact else None
    except (OSError, StorageError):
        return None


def digest(path: Path) -> str:
    """Of what a file holds, sealed or not: a version stays itself when its data home is encrypted."""
    return hashlib.sha256(read(path)).hexdigest()


_SAMPLES, _SAMPLE = 32, 1 << 16
_known: dict[tuple, str] = {}


def model_fingerprint(model: Path) -> str:
    """Tells a model file from every other one: its size, beginning, end and samples from between, hashed."""
    status = model.stat()
    key = (model.resolve(), status.st_size, status.st_mtime_ns)
    if key not in _known:
        found = hashlib.sha256(str(status.st_size).encode())
        with open(model, "rb") as file:
            for i in range(_SAMPLES + 1):
                file.seek(max(0, status.st_size - _SAMPLE) * i // _SAMPLES)
                found.update(file.read(_SAMPLE))
        _known[key] = found.hexdigest()
    return _known[key]


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


DAMAGED = ".damaged-"
KEPT_ASIDE = 2
_UNFINISHED = re.compile(r"\.new-(\d+)(-\w+)?")


def unfinished_folder(store: Path, name: str = "") -> Path:
    """Where this process writes or removes something."""
    return store / f".new-{os.getpid()}{'-' if name else ''}{name}"


def unfinished(store: Path, alive_too: bool = False) -> Iterator[Path]:
    """What killed processes left; what living ones are at as well, if wanted."""
    for path in list(store.iterdir()) if store.is_dir() else []:
        match = _UNFINISHED.fullmatch(path.name)
        if match and (alive_too or not psutil.pid_exists(int(match[1]))):
            yield path


def damaged(store: Path) -> list[Path]:
    """Versions set aside, in order."""
    return sorted(store.glob(f"{DAMAGED}*")) if store.is_dir() else []


def set_aside(version: Path) -> bool:
    """Give a damaged version's folder a name under which it is none, in files and exports; False if that fails."""
    try:
        os.rename(version, version.with_name(DAMAGED + version.name))
    except OSError:
        return False
    sync_folder(version.parent)
    return True


def discard(version: Path) -> None:
    """Remove a version unreadably: a forgotten conversation's traces are in the weights. It is no version from the
    first moment on, whenever this is killed."""
    doomed = unfinished_folder(version.parent, version.name)
    with suppress(OSError):  # a file of it is open, on Windows
        os.rename(version, doomed)
        version = doomed
    erase(version)


def place(path: Path, content: bytes | Path) -> None:
    """Write bytes, or move a file, to `path`, down to the disk."""
    if not isinstance(content, Path):
        path.write_bytes(as_stored(path, content))
    elif vault_of(path) is None:
        os.replace(content, path)
    else:
        put_in(content, path)
        content.unlink()
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
