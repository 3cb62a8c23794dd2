"""Targets that others took the place of, so that going back to one takes no time: the last one as it is, where there is
room, and of those before what they had read. Only in this process's memory; knows nothing of drafters.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.app.room import needs
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.engine import Engine
from omnidraft.prompting.prompted_model import PromptedModel
from omnidraft.settings.config import ModelSettings

_SHARE = 8  # of the free memory one part is used for what was read: loading the next model needs the rest


@dataclass(frozen=True, slots=True)
class Opened:
    """Files as they were, the model's first, and how they were opened: others, or another way, compute other keys."""

    files: tuple[str, ...]
    settings: ModelSettings
    must_see: bool


class KeptTargets:
    """By what they were opened from; whoever is kept is closed here."""

    def __init__(self) -> None:
        self._beside: tuple[Opened, Engine] | None = None
        # What others had read, oldest first: ids of the conversation, then the tokens and the state behind them.
        self._reads: dict[Opened, tuple[list[int], list[int], bytes]] = {}

    @property
    def beside(self) -> int:
        """Bytes of the target that stayed, which goes before another one is opened."""
        if (kept := self._beside) is None:
            return 0
        opened, engine = kept
        return needs(engine.target.model.info, opened.settings) or 0

    def has_read(self, opened: Opened) -> bool:
        return opened in self._reads

    def take(self, opened: Opened) -> Engine | None:
        """The target that was opened from this, as it was left; who else is kept makes room."""
        if self._beside is not None and self._beside[0] == opened:
            (_, engine), self._beside = self._beside, None
            return engine
        self.make_room()
        return None

    def put(self, opened: Opened, engine: Engine, instead: Opened) -> None:
        """Another one, opened as `instead`, took its place. It stays if as much as it takes is free beside it, unless
        that is the same model."""
        self.make_room()
        memory = engine.memory
        engine.pair_drafter(None, None, None)
        engine.memory = memory
        self._beside, free = (opened, engine), available_bytes()
        here = isinstance(engine.target.model, LlamaTarget) and not engine.target.model.on_card
        if not here or opened.files[0] == instead.files[0] or free is None or free < self.beside:
            self.make_room()

    def make_room(self) -> bool:
        """Whether a target was kept, which is closed now."""
        if self._beside is None:
            return False
        (opened, engine), self._beside = self._beside, None
        self._keep_read(opened, engine.target)
        engine.target.model.close()
        return True

    def put_back(self, opened: Opened, target: PromptedModel) -> None:
        """`target` was opened anew from this, and has read nothing yet; what it had read is kept no longer."""
        if opened in self._reads and isinstance(target.model, LlamaTarget):
            target.committed, tokens, state = self._reads.pop(opened)
            target.model.put_back(tokens, state)

    def forget(self) -> None:
        """Hold nothing, not even of what was read."""
        self.make_room()
        self._reads.clear()

    def _keep_read(self, opened: Opened, target: PromptedModel) -> None:
        """`target` is about to be closed. The oldest goes where memory is short."""
        if not isinstance(target.model, LlamaTarget):
            return
        most = (available_bytes() or 0) // _SHARE
        while self._reads and sum(len(state) for _, _, state in self._reads.values()) > most // 2:
            del self._reads[next(iter(self._reads))]
        if (found := target.model.copy_read(most // 2)) is not None:
            self._reads[opened] = (list(target.committed), *found)
