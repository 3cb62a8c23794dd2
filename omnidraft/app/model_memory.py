"""How much memory a model will take and whether it is free, for pages: by the same formulas that refuse a load, and no
model is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.context_length import context_length
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.hf.estimate import folder_estimate
from omnidraft.backends.llama.cards import SPARE
from omnidraft.backends.llama.devices import local_cards
from omnidraft.backends.llama.estimate import header_estimate
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import ModelError
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings


def context_of(model: ModelInfo, settings: ModelSettings) -> int:
    """The context length it would be loaded with."""
    return context_length(model, settings)[0]


def estimate(model: ModelInfo, settings: ModelSettings, projector: Path | None) -> int:
    """Bytes of weights, projector, cache and buffers with the chosen context; Hugging Face folders as on the
    processor."""
    n_ctx = context_of(model, settings)
    if model.path.is_dir():
        dtype = "float32" if settings.dtype == "auto" else settings.dtype
        return folder_estimate(model, "cpu", dtype, n_ctx).total
    eyes = projector.stat().st_size if projector is not None and projector.is_file() else 0
    return header_estimate(model, settings, n_ctx).total + eyes


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that are free for a target, or would be without the one that is loaded. memory: None where the system does
    not say; card: of the graphics card with most, cards: of all."""

    memory: int | None
    card: int = 0
    cards: int = 0

    @classmethod
    def now(cls, settings: ModelSettings, loaded: int) -> Room:
        """loaded: bytes of the target that would make room."""
        cards = [int(SPARE * card.free) for card in local_cards()] if settings.n_gpu_layers else []
        if cards:
            return cls(available_bytes(), max(cards) + loaded, sum(cards) + loaded)
        free = available_bytes()
        return cls(free + loaded if free is not None else None)

    def fits(self, path: Path, needed: int) -> tuple[bool, str]:
        """(whether a model that needs so much can be loaded, how that is said)."""
        card = 0 if path.is_dir() else self.card
        if self.memory is None or needed <= card:
            return True, "fits on the card" if card else "fits"
        free = self.memory + (self.cards if card else 0)
        if needed > free:
            return False, f"too large: {size(free)} are free"
        return True, "fits, partly on the card" if card else "fits"


def needs(model: ModelInfo, settings: ModelSettings, projector: Path | None = None) -> int | None:
    """`estimate`, or None: a folder may have been emptied since it was listed, and the page is shown all the same."""
    try:
        return estimate(model, settings, projector)
    except (ModelError, OSError):
        return None
