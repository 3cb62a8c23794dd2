"""The projector of a model: a file of its own (mmproj), found beside the model by its name, or chosen for it.

Repositories name it `mmproj-F16.gguf`, or after the model; several models may lie in one folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from omnidraft.backends.gguf.file import read_info
from omnidraft.errors import ModelError
from omnidraft.settings.named_files import named_file

NO_PROJECTOR = "none"

_FORMAT = re.compile(r"\b(q\d+(_[0-9a-z]+)*|iq\d+(_[0-9a-z]+)*|b?f16|fp16|f32|mmproj|model|gguf|\d{5}-of-\d{5})\b")


def projector_for(model: Path, projectors: Sequence[str]) -> Path | None:
    """What a model sees pictures through: what its owner named (see `AppSettings`), else what lies beside it."""
    named = named_file(projectors, model.name)
    if named is None:
        return projector_beside(model)
    return None if named == NO_PROJECTOR else Path(named)


def projector_beside(model: Path) -> Path | None:
    """The projector whose name says most of this model's and nothing else; None where there is none."""
    known = _words(model)
    fitting = [
        path for path in sorted(model.parent.glob("*.gguf"))
        if "mmproj" in path.name.lower() and _words(path) <= known and _is_projector(path)
    ]  # fmt: skip
    return max(fitting, key=lambda path: len(_words(path)), default=None)


def _words(path: Path) -> set[str]:
    """What a file's name says besides its format."""
    name = _FORMAT.sub(" ", re.sub(r"[-.\s]", " ", path.name.lower()))
    return set(re.findall(r"[a-z0-9]+", name))


def _is_projector(path: Path) -> bool:
    try:
        return read_info(path).kind == "projector"
    except ModelError:
        return False
