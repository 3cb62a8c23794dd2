"""Opens a target whatever form it comes in: a GGUF file by llama.cpp, a Hugging Face folder by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.backends.discovery import projector_for
from omnidraft.backends.llama.estimate import check_projector
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.errors import ModelError, NoRoom
from omnidraft.settings.config import ModelSettings

if TYPE_CHECKING:
    from omnidraft.backends.base import LanguageModel
    from omnidraft.backends.hf.target import HfTarget

_NO_PROJECTOR = "{} is not used: only models in GGUF files on this machine alone take projectors here."
_NO_WORKERS = "Workers hold layers of GGUF files only, so this folder is computed on this machine alone."


def open_target(
    path: str | Path,
    settings: ModelSettings,
    replaced: LanguageModel | None = None,
    projector: Path | None = None,
    projectors: Sequence[str] = (),
) -> LlamaTarget | HfTarget | TargetProcess:
    """The target at `path`, a file or a folder; ModelError in one sentence if it cannot serve.

    replaced: the target that this one shall take the place of. A worker serves one main program at a time, so one that
    uses workers lets go of them here; it takes them again with its next pass, should it still be asked.
    projector: what it sees pictures through; None: what `projectors` (as in `AppSettings`) names for it, else one that
    lies beside it, if that serves. NoRoom if there would be more memory without `replaced`.
    """
    if Path(path).is_dir():
        from omnidraft.backends.hf.target import HfTarget

        opened = HfTarget.open(path, settings)
        opened.notices += [_NO_WORKERS] if settings.workers else []
        opened.notices += [_NO_PROJECTOR.format(projector)] if projector else []
        return opened
    if settings.workers:
        if isinstance(replaced, TargetProcess):
            replaced.release()
        remote = TargetProcess(path, settings)
        remote.notices += [_NO_PROJECTOR.format(projector)] if projector else []
        return remote
    target = LlamaTarget.open(path, settings)
    beside = projector or projector_for(Path(path), projectors)
    if beside is not None:
        try:
            if not target.on_card:
                check_projector(beside)
            target.open_eyes(beside)
        except ModelError as error:
            if projector is not None or (replaced is not None and isinstance(error, NoRoom)):
                target.close()
                raise
            target.notices.append(f"{error} So {target.name} reads text only.")
    return target
