"""How many layers of a model lie on this machine's graphics cards: `place`.

Counted from the file's header and what is free on each card; where that comes close, llama.cpp is asked for what it
computes in. Knows nothing of who loads what, or when.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnidraft.backends.context_length import context_length
from omnidraft.backends.gguf.file import ModelInfo, usable_info
from omnidraft.backends.llama.devices import Device, local_cards
from omnidraft.backends.llama.estimate import estimate_on_cards, header_estimate, size
from omnidraft.backends.llama.placement import Placement
from omnidraft.backends.llama.sizes import kv_cache_bytes, layer_bytes
from omnidraft.settings.config import ModelSettings

SPARE = 0.95  # of what is free may be filled: drivers take some for themselves while they compute
_CLOSE = 0.5  # of a card's free memory: from here on it is worth a second to know exactly


def place(
    info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int, rollback: int, *, whole: bool
) -> tuple[Placement | None, str | None]:
    """As many layers as fit on this machine's cards; None and a sentence where there is something to say.

    whole: put all of it on one card or nothing, as serves a drafter, whose every step would wait for both.
    """
    cards = sorted(local_cards(), key=lambda card: card.free)
    if not cards:
        return None, None
    known = header_estimate(info, settings, n_ctx, max_rows)
    cache, computing = kv_cache_bytes(info, n_ctx, settings.kv_type), known.compute
    if cache is None or known.total > _CLOSE * cards[-1].free:
        cache, computing = estimate_on_cards(info, settings, n_ctx, max_rows, rollback)
    rooms = [int(SPARE * card.free) - computing for card in cards]
    counts = fill(*card_bytes(info, cache), rooms, whole=whole)
    return (Placement([card.handle for card in cards], counts) if any(counts) else None), _said(info, cards, counts)


def crowded(path: str | Path, settings: ModelSettings) -> bool:
    """Whether a model file wants a card on which it does not find room for all of it now."""
    cards = local_cards()
    if not (cards and settings.n_gpu_layers) or settings.workers or Path(path).is_dir():
        return False
    info = usable_info(path)
    known = header_estimate(info, settings, context_length(info, settings)[0])
    return known.total > SPARE * max(card.free for card in cards)


def card_bytes(info: ModelInfo, cache: int) -> tuple[list[int], int]:
    """Bytes on a card: (each layer with its part of the cache, the step from the hidden state to the logits)."""
    layers, others = layer_bytes(info)
    output = others.get("token_embd.weight", 0) if info.tied else others.get("output.weight", 0)
    return [count + -(-cache // max(info.layers, 1)) for count in layers], output + others.get("output_norm.weight", 0)


def fill(layers: Sequence[int], output: int, rooms: Sequence[int], *, whole: bool = False) -> list[int]:
    """How many layers each card takes, in their order behind those of the processor; the last card takes the output.

    rooms: bytes on each card, the largest last. What fits on one card is not divided; else the last layers go first.
    """
    counts, left = [0] * len(rooms), list(rooms)
    if sum(layers) + output <= left[-1]:
        counts[-1] = len(layers)
        return counts
    left[-1] -= output
    if whole or left[-1] < layers[-1]:
        return counts
    at = len(layers)
    for card in reversed(range(len(rooms))):
        while at and layers[at - 1] <= left[card]:
            at -= 1
            left[card] -= layers[at]
            counts[card] += 1
    return counts


def _said(info: ModelInfo, cards: Sequence[Device], counts: Sequence[int]) -> str | None:
    on_cards = sum(counts)
    if on_cards == info.layers:
        return None
    free = " and ".join(f"{size(card.free)} of {card.description}" for card in reversed(cards))
    where = f"{on_cards} of {info.layers} layers of {info.name} are" if on_cards else f"{info.name} is not"
    return f"{where} on the graphics card, as {free} are free; the processor computes the rest."
