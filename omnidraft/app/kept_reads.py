"""What targets had read when others took their place, so that going back to one does not read a conversation again.

Only in this process's memory, within a part of what is free there. Knows nothing of conversations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from omnidraft.app.speeds import file_mark
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.prompting.prompted_model import PromptedModel
from omnidraft.settings.config import ModelSettings

_SHARE = 8  # of the free memory one part is used: loading the next model needs the rest


@dataclass(frozen=True, slots=True)
class Opened:
    """A file as it was when a target was opened from it, and how; another file or way computes other keys."""

    file: str
    settings: ModelSettings

    @classmethod
    def of(cls, path: Path, settings: ModelSettings) -> Opened:
        return cls(file_mark(path) if path.exists() else "", settings)  # who opens it says that it is missing


@dataclass(frozen=True, slots=True)
class Read:
    """What a target had read, and the ids of its conversation."""

    committed: list[int]
    tokens: list[int]
    state: bytes

    def put_back(self, target: PromptedModel) -> None:
        """`target` was opened anew, and has read nothing yet."""
        if isinstance(target.model, LlamaTarget):
            target.model.put_back(self.tokens, self.state)
            target.committed = list(self.committed)


class KeptReads:
    """By what a target was opened from: what it had read. The oldest goes first where memory is short."""

    def __init__(self) -> None:
        self._kept: dict[Opened, Read] = {}

    def keep(self, opened: Opened, target: PromptedModel) -> None:
        """`target` is about to be closed."""
        if not isinstance(target.model, LlamaTarget):
            return
        most = psutil.virtual_memory().available // _SHARE
        while self._kept and sum(len(read.state) for read in self._kept.values()) > most // 2:
            del self._kept[next(iter(self._kept))]
        if (found := target.model.copy_read(most // 2)) is not None:
            self._kept[opened] = Read(list(target.committed), *found)

    def take(self, opened: Opened) -> Read | None:
        """What a target opened from this had read; it is kept no longer."""
        return self._kept.pop(opened, None)

    def forget(self) -> None:
        self._kept.clear()
