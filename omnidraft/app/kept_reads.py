"""What targets had read when others took their place, so that going back to one does not read a conversation again.

Only in this process's memory, within a part of what is free there. Knows nothing of conversations.
"""

from __future__ import annotations

from pathlib import Path

import psutil

from omnidraft.app.speeds import file_mark
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.prompting.prompted_model import PromptedModel
from omnidraft.settings.config import ModelSettings

_SHARE = 8  # of the free memory one part is used: loading the next model needs the rest


Opened = tuple[str, ModelSettings]  # a file as it was, and how it is opened: another file or way computes other keys


def opened_from(path: Path, settings: ModelSettings) -> Opened:
    return file_mark(path) if path.exists() else "", settings  # who opens it says that it is missing


class KeptReads:
    """By what a target was opened from: what it had read. The oldest goes first where memory is short."""

    def __init__(self) -> None:
        # The ids of the conversation, then the tokens that were read and the state behind them.
        self._kept: dict[Opened, tuple[list[int], list[int], bytes]] = {}

    def __contains__(self, opened: Opened) -> bool:
        return opened in self._kept

    def keep(self, opened: Opened, target: PromptedModel) -> None:
        """`target` is about to be closed."""
        if not isinstance(target.model, LlamaTarget):
            return
        most = psutil.virtual_memory().available // _SHARE
        while self._kept and sum(len(state) for _, _, state in self._kept.values()) > most // 2:
            del self._kept[next(iter(self._kept))]
        if (found := target.model.copy_read(most // 2)) is not None:
            self._kept[opened] = (list(target.committed), *found)

    def put_back(self, opened: Opened, target: PromptedModel) -> None:
        """`target` was opened anew from this, and has read nothing yet; what it had read is kept no longer."""
        if opened in self._kept and isinstance(target.model, LlamaTarget):
            target.committed, tokens, state = self._kept.pop(opened)
            target.model.put_back(tokens, state)

    def forget(self) -> None:
        self._kept.clear()
