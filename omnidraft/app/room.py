"""How much memory a model takes and whether it is there: by the same formulas that refuse a load, and no model is
opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.backends.gguf.file import ModelInfo, context_length, usable_info
from omnidraft.backends.hf.folder import folder_estimate
from omnidraft.backends.llama.devices import local_cards
from omnidraft.backends.llama.estimate import SPARE, header_estimate
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import ModelError
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings

if TYPE_CHECKING:
    from omnidraft.app.session import Session


def context_of(model: ModelInfo, settings: ModelSettings) -> int:
    """The context length it would be loaded with."""
    return context_length(model, settings)[0]


def needs(model: ModelInfo, settings: ModelSettings, projector: Path | None = None) -> int | None:
    """Bytes of weights, projector, cache and buffers with the chosen context; Hugging Face folders as on the processor.
    None if the files cannot be read: a folder may have been emptied since it was listed."""
    try:
        n_ctx = context_of(model, settings)
        if model.path.is_dir():
            dtype = "float32" if settings.dtype == "auto" else settings.dtype
            return folder_estimate(model, "cpu", dtype, n_ctx).total
        eyes = projector.stat().st_size if projector is not None and projector.is_file() else 0
        return header_estimate(model, settings, n_ctx).total + eyes
    except (ModelError, OSError):
        return None


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that are free for a target, or would be without those it takes the place of. memory: None where the system
    does not say; card: of the graphics card with most, cards: of all."""

    memory: int | None
    card: int = 0
    cards: int = 0

    @classmethod
    def now(cls, settings: ModelSettings, replaced: int = 0) -> Room:
        """replaced: bytes of the targets that would go."""
        free = available_bytes()
        if cards := [int(SPARE * card.free) for card in local_cards()] if settings.n_gpu_layers else []:
            return cls(free, max(cards) + replaced, sum(cards) + replaced)
        return cls(free + replaced if free is not None else None)

    @classmethod
    def beside(cls, session: Session) -> Room:
        """For any other target than the one that answers, or the same one loaded in another way."""
        return cls.now(session.model_settings, session.assistant.loaded.replaceable)

    @property
    def free(self) -> int | None:
        return self.memory + self.cards if self.memory is not None else None

    def fits(self, needed: float, *, folder: bool = False) -> tuple[bool, str]:
        """(whether a model that needs so much can be loaded, how that is said). folder: one of Hugging Face's."""
        card, free = (0, self.memory) if folder else (self.card, self.free)
        if free is not None and needed > free:
            return False, f"too large: {size(free)} are free"
        return True, "fits" if not card else "fits on the card" if needed <= card else "fits, partly on the card"

    def holds(self, file: float) -> tuple[bool, str]:
        """The like of a file of so many bytes that is not here yet: a fifth more is for its context and buffers."""
        return self.fits(1.2 * file)


def crowds_a_card(target: Path, settings: ModelSettings) -> bool:
    """Whether a card would hold it only if what lies there went."""
    if settings.workers or target.is_dir() or not (card := Room.now(settings).card):
        return False
    return (needs(usable_info(target), settings) or 0) > card
