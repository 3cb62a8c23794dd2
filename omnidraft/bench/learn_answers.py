"""The answers a learning run learns from, generated once per target, task and seed and shared by all losses.

What a target emits does not depend on the drafter, so a stream that is answered first and learned from afterwards is
the stream a user would have lived. Kept in one file, so that an interrupted run does not answer again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.lab.prompts import Prompt
from omnidraft.learning.material.offline import Answering
from omnidraft.learning.material.record import Record, decode, encode
from omnidraft.storage.files import write_atomically

_LENGTH = struct.Struct("<I")


def taken_over(path: Path, folder: Path, made_with: dict) -> bool:
    """Whether `path` is there after all: copied from a run below `folder` that answered the same prompts (its name says
    so) with what `made_with` says. StorageError if that folder is not there."""
    if not folder.is_dir():
        raise StorageError(f"There is no folder {folder} of recorded answers.")
    for found in sorted(folder.rglob(path.name)):
        try:
            plan = json.loads((found.parent / "plan.json").read_bytes())
        except (OSError, ValueError):
            continue
        models = made_with["models"].items() <= plan.get("models", {}).items()
        if models and all(plan.get(name) == value for name, value in made_with.items() if name != "models"):
            write_atomically(path, found.read_bytes())
            return True
    return False


def answered(
    path: Path,
    answering: Answering,
    prompts: Sequence[Prompt],
    task: str,
    temperature: float,
    max_tokens: int,
    seed: int,
) -> list[Record]:
    """The file's records, or the target's answers to `prompts`, each drawn with a seed of its own."""
    if not path.exists():
        asked = ((f"{task}-{i}", task, prompt.messages) for i, prompt in enumerate(prompts))
        blobs = [encode(record) for record in answering.records(asked, temperature, max_tokens, seed + 1)]
        write_atomically(path, b"".join(_LENGTH.pack(len(blob)) + blob for blob in blobs))
    return read(path)


def read(path: Path) -> list[Record]:
    """Records as they come back from disk, rounded as a replay rounds them."""
    data, at, found = path.read_bytes(), 0, []
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            found.append(decode(data[at + _LENGTH.size : at + _LENGTH.size + length]))
            at += _LENGTH.size + length
    except struct.error as error:
        raise StorageError(f"{path} is damaged; delete it and run again") from error
    return found
