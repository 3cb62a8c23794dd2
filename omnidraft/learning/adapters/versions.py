"""Adapter versions as folders on disk: what is written beside one, whether it is whole, written for sure, removed; and
the adapter itself as llama.cpp loads it, a GGUF LoRA or a drafter with its adapter added in.

Which of a store's versions serves is said by a small file beside them, `current.json`, replaced atomically. Names
beginning with a dot are no versions: `.new-PID...` is being written or removed by that process and swept once it is
gone; `.damaged-NAME` was found damaged and is kept for whoever wants to look.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import psutil
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from omnidraft.backends.gguf.header import MappedTensor, map_tensors, permuted, read_header
from omnidraft.errors import ModelError, StorageError
from omnidraft.format import size
from omnidraft.storage import scratch
from omnidraft.storage.files import (
    as_stored,
    erase,
    put_in,
    read,
    read_as,
    read_json,
    readable,
    reason,
    sampled,
    sync_folder,
    while_unchanged,
    write_atomically,
)
from omnidraft.storage.vault import vault_of

ADAPTER = "adapter.gguf"  # what llama.cpp serves, F16
WEIGHTS = "weights.npz"  # what training continues from, F32
META = "meta.json"
SCHEMA = 1
LONGEST = 64 << 20  # bytes of a description; a conversation takes 36 of them
_PART = ".gguf-part"  # ends the names of drafters that are being written


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
            return read_as(cls, values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
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


def read_meta(path: Path) -> Meta:
    """The description in a version's folder. OSError, StorageError if there is none or it is damaged."""
    if (path / META).stat().st_size > LONGEST:
        raise StorageError("an adapter's description is damaged: it is too long")
    return Meta.from_json(read(path / META))


def read_version(path: Path) -> Version | None:
    """The version in this folder; None if anything of it is missing or not as it was written."""
    try:
        meta = read_meta(path)
        own = meta.sha256.keys() <= {ADAPTER, WEIGHTS}  # no file elsewhere is read
        intact = bool(meta.sha256) and own and all(digest(path / n) == known for n, known in meta.sha256.items())
        return Version(path, meta) if intact else None
    except (OSError, StorageError):
        return None


def digest(path: Path) -> str:
    """Of what a file holds, sealed or not: a version stays itself when its data home is encrypted."""
    return hashlib.sha256(read(path)).hexdigest()


model_fingerprint = while_unchanged(64)(sampled)


CURRENT = "current.json"
VERSION_NAME = re.compile(r"v[0-9]{6,18}")


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
        pointer = read_as(Pointer, values)
        names = [name for name in (*pointer.rejected, pointer.version) if name is not None]
        whole = {"version", "rejected", "through"} <= values.keys()
        return pointer if whole and all(map(VERSION_NAME.fullmatch, names)) else None
    except (OSError, ValueError, TypeError, AttributeError, StorageError):
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
    """Give a damaged version's folder a name under which it is none; False if that fails."""
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


def place(path: Path, content: bytes) -> None:
    """Write a file down to the disk."""
    with open(path, "wb") as file:
        file.write(as_stored(path, content))
        file.flush()
        os.fsync(file.fileno())


# The adapter's files. llama.cpp stores the query and key rows of the llama architecture in another order than torch
# (rotary halves interleaved); an adapter's B matrix has the same rows and is reordered alike. The merged file has the
# bare one's size and types: a LoRA costs a small drafter a third of its step and more; merged it costs nothing.


PERMUTED = ("llama",)  # architectures whose query and key rows llama.cpp reorders


def write_adapter(path: Path, weights: Mapping[str, np.ndarray], drafter: Path, alpha: float) -> None:
    """Write `weights` ({"blk.0.attn_q.lora_a": (rank, in), "....lora_b": (out, rank)}) as a GGUF LoRA for `drafter`, in
    F16. ModelError if they are not finite."""
    architecture, heads = _reordered(drafter)
    writer = GGUFWriter(str(path), architecture)
    try:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(alpha))
        for name, matrix in sorted(weights.items()):
            layer, _, part = name.rpartition(".")
            if not np.isfinite(matrix).all():
                raise ModelError(f"training made {name} infinite; the adapter was not written")
            count = heads.get(layer.rpartition(".")[2]) if part == "lora_b" else None
            rows = matrix if count is None else permuted(matrix, count)
            writer.add_tensor(f"{layer}.weight.{part}", np.ascontiguousarray(rows, np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _reordered(drafter: Path) -> tuple[str, dict[str, int]]:
    """The architecture, and the heads of layers whose rows llama.cpp reorders."""
    known = read_header(drafter).metadata
    architecture = known["general.architecture"]
    if architecture not in PERMUTED:
        return architecture, {}
    heads = known[f"{architecture}.attention.head_count"]
    return architecture, {"attn_q": heads, "attn_k": known.get(f"{architecture}.attention.head_count_kv", heads)}


LARGEST = 400 << 20  # bytes of a drafter; beyond it the adapter weighs little and a copy weighs much
_ROWS = 4096  # added to at once
_FINE = (
    GGMLQuantizationType.F32,
    GGMLQuantizationType.F16,
    GGMLQuantizationType.BF16,
    GGMLQuantizationType.Q8_0,
    GGMLQuantizationType.Q5_0,
)  # coarser types round half of an adapter away


def can_merge(drafter: Path) -> bool:
    """Whether a merged copy is worth its disk space and keeps what was learned."""
    if not drafter.is_file() or drafter.stat().st_size > LARGEST:
        return False
    return all(tensor.type in _FINE for tensor in read_header(drafter).tensors.values() if len(tensor.shape) == 2)


def merged_path(folder: Path, version: Version) -> Path:
    """Where in a folder the merged file of a version is: its name follows from the adapter's content."""
    store = version.path.parent
    return folder / store.parent.name / store.name / f"{version.name}-{version.meta.sha256[ADAPTER][:16]}.gguf"


def write_merged(drafter: Path, adapter: Path, out: Path) -> Path:
    """Write W + alpha / rank * B A for every adapted W of `drafter` to `out`, whole or not at all.

    adapter: a GGUF LoRA of this drafter. Types stay: F16 rounds the sum to 1/2048 of itself, Q8_0 to 1/254 of the
    largest weight among 32 neighbours, Q5_0 to 1/32.
    """
    _need_space(out.parent, drafter.stat().st_size)
    with readable(adapter) as lora, _writing(out) as temporary:
        shutil.copyfile(drafter, temporary)
        _merge(temporary, lora)
    return out


def _need_space(folder: Path, needed: int) -> None:
    """StorageError unless `folder` has `needed` bytes free, and 5% to spare."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 1.05 * needed:
        raise StorageError(f"{folder} has {size(free)} free; this needs {size(1.05 * needed)}.")


@contextmanager
def _writing(out: Path) -> Iterator[Path]:
    """A file to write to, moved to `out` when the block ends well; sealed where that is encrypted. What killed
    processes left in that folder, for whatever file, goes first. StorageError."""
    vault = vault_of(out)
    try:
        scratch.sweep_files(out.parent, f".*{_PART}")
        with scratch.replacing(out, _PART) as stored:
            if vault is None:
                yield stored
                return
            with vault.scratch() as folder:
                yield folder / out.name
                put_in(folder / out.name, stored)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {reason(error)}.") from error


def _merge(file: Path, lora: Path) -> None:
    """Add what `lora` holds to the weights in `file`."""
    alpha = float(read_header(lora).metadata["adapter.lora.alpha"])
    halves, weights = map_tensors(lora), map_tensors(file, "r+")
    for name in (name.removesuffix(".lora_a") for name in halves if name.endswith(".lora_a")):
        if name not in weights:
            raise ModelError(f"The adapter changes {name}, which the drafter does not have.")
        down, up = halves[f"{name}.lora_a"].rows(), halves[f"{name}.lora_b"].rows()
        _add(weights[name], up, down * (alpha / len(down)))


def _add(weight: MappedTensor, up: np.ndarray, down: np.ndarray) -> None:
    """weight += up @ down, in place, in the weight's own type."""
    for start in range(0, len(up), _ROWS):
        part = slice(start, start + _ROWS)
        now = weight.rows(part) + up[part] @ down
        weight.data[part] = now if weight.is_plain else quantize(now, weight.type)
