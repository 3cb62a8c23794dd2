"""How much memory a GGUF model takes with its context, asked before it is loaded: `estimate`, `check_memory`.

llama.cpp itself works out its buffers, without reserving them, in a child process: the exact figures for every
architecture, and nothing of this process at stake. Loads that are far from filling the memory are not asked about.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo, read_info
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.devices import Device, Placement, local_cards
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.sizes import available_bytes, kv_cache_bytes, layer_bytes, prompt_step, tensor_bytes
from omnidraft.errors import NoRoom
from omnidraft.format import size
from omnidraft.processes.children import asked, run_bounded
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import real
from omnidraft.storage.trial import WITHIN
from omnidraft.vocab import llama_vocab

_CLOSE = 0.5  # of the free memory: from here on it is worth half a second to know exactly
_COMPUTING = 1 << 30  # bytes that the buffers to compute in hardly ever reach
# Bytes llama.cpp holds per entry of the vocabulary: its text, twice, the map to find it, and the rank of a merge.
_PER_TOKEN, _PER_TOKEN_WITHOUT_MERGES = 320, 190
_GRAPH = 2_000_000  # bytes of a context's own bookkeeping: graphs and their allocation
_UBATCH = 512
_PADDING = 256  # tokens to which llama.cpp rounds a cache up
# Bytes of weights laid out for our kernels by those of the file, where that is more: whole-numbered scales take a byte.
_LAID_OUT = {"Q4_K_M": 1.028, "Q4_K_S": 1.028, "Q5_K_M": 1.023, "Q5_K_S": 1.023, "Q3_K_M": 1.037, "MXFP4": 1.06}
_SECONDS = 60.0
_MEMORY = 4 << 30  # for the child, beside the weights
_MIB = 1 << 20
_CACHE = re.compile(r"(?:kv_cache\w*|memory_recurrent): size = +([0-9.]+) MiB")
_BUFFER = re.compile(r"(\S+) +(?:compute|output) buffer size = +([0-9.]+) MiB")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes: the weights with the vocabulary, the cache (keys, values, recurrent states), the buffers to compute in."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute

    def __str__(self) -> str:
        parts = f"weights {size(self.weights)}, cache {size(self.cache)}, computing {size(self.compute)}"
        return f"{size(self.total)} ({parts})"


def weight_bytes(info: ModelInfo) -> int:
    """Bytes of all tensors and of the vocabulary."""
    merges = read_header(info.path).metadata.get("tokenizer.ggml.model") != "llama"
    per_token = _PER_TOKEN if merges else _PER_TOKEN_WITHOUT_MERGES
    laid_out = _LAID_OUT.get(info.quantization, 1.0) * sum(tensor_bytes(info).values())
    return int(laid_out) + per_token * info.vocabulary_size


def header_estimate(info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int = 64) -> Estimate:
    """What the file's header tells: what pages show, and where a load that is far from filling the memory stops."""
    step, scores = _step(info, settings, n_ctx)
    buffers = 4 * (step * (4 * info.width + n_ctx) + scores + max_rows * info.vocabulary_size)
    compute = buffers + _unlogged(info, settings, n_ctx, max_rows)
    return Estimate(weight_bytes(info), kv_cache_bytes(info, n_ctx, settings.kv_type) or 0, compute)


def _step(info: ModelInfo, settings: ModelSettings, n_ctx: int) -> tuple[int, int]:
    """(prompt tokens computed at once, attention scores held for them: none with flash attention)."""
    most = min(N_BATCH, n_ctx)
    step = prompt_step(info, n_ctx, most) if settings.kv_type == "f16" else 0
    return (step, step * n_ctx * info.heads) if step else (most, 0)


def _unlogged(info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int) -> int:
    """Bytes that llama.cpp takes only while it computes, and does not log.

    A copy of the rows of logits, and the threads' work area: what a matrix product multiplies with, in F16, of which
    the attention scores are the largest. It grows as the context fills, and leaves its last smaller self behind.
    """
    step, scores = _step(info, settings, n_ctx)
    # Our kernels take the scores as they are, and the widest activations as codes.
    work = 8 * step * info.width if library.in_use() else 3 * max(scores, step * info.width)
    return work + 4 * max_rows * info.vocabulary_size + _GRAPH


def estimate(
    info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int = 64, rollback: int = 0
) -> Estimate | None:
    """What loading `info` with a context of `n_ctx` tokens will take; None if llama.cpp cannot tell."""
    told = _told(info, settings, n_ctx, max_rows, rollback, cards=False)
    if told is None:
        return None
    cache, buffers, _ = told
    return Estimate(weight_bytes(info), cache, buffers + _unlogged(info, settings, n_ctx, max_rows))


def estimate_on_cards(
    info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int, rollback: int
) -> tuple[int, int]:
    """Bytes: (the cache of all layers, what the fullest card computes in) where every layer lies on a card; by the
    header's arithmetic where llama.cpp cannot tell."""
    known = header_estimate(info, settings, n_ctx, max_rows)
    told = _told(info, settings, n_ctx, max_rows, rollback, cards=True)
    return (known.cache, known.compute) if told is None else (told[0], told[2])


def _told(
    info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int, rollback: int, *, cards: bool
) -> tuple[int, int, int] | None:
    request = {
        "path": str(real(Path(info.path))), "settings": asdict(settings), "n_ctx": n_ctx, "max_rows": max_rows,
        "rollback": rollback, "cards": cards,
    }  # fmt: skip
    try:
        return run_bounded(__spec__.name, request, _SECONDS, _MEMORY + weight_bytes(info), {WITHIN: "1"}).answer
    except OSError:
        return None


def check_memory(info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int = 64, rollback: int = 0) -> None:
    """NoRoom with the numbers and a way out if the model with its context does not fit into free memory.

    Nothing is said where part of it goes to a GPU or the system does not tell what is free.
    """
    free = available_bytes()
    if free is None or settings.n_gpu_layers > 0:
        return
    known = header_estimate(info, settings, n_ctx, max_rows)
    if known.total <= _CLOSE * free and free - known.total > _COMPUTING:
        return
    full = known if known.weights + known.cache > free else estimate(info, settings, n_ctx, max_rows, rollback) or known
    if full.total > free:
        raise NoRoom(
            f"{info.name} needs {full} with a context of {n_ctx} tokens, but {size(free)} of memory are free; "
            f"{_suggestion(full, settings, n_ctx, free)}."
        )


def check_projector(path: Path) -> None:
    """NoRoom if a projector's file is larger than what is free; the buffers it computes in are not known before."""
    needed, free = path.stat().st_size if path.is_file() else 0, available_bytes()
    if free is not None and needed > free:
        raise NoRoom(f"The projector {path.name} needs {size(needed)}, but {size(free)} of memory are free.")


def _suggestion(full: Estimate, settings: ModelSettings, n_ctx: int, free: int) -> str:
    """What would fit: a shorter context, a smaller number format of the cache, or only another model."""
    left = free - full.weights - full.compute
    fits = int(0.95 * left / full.cache * n_ctx) // _PADDING * _PADDING if full.cache else 0
    if fits >= 512:
        smaller = " or the KV cache format to q8_0" if settings.kv_type == "f16" else ""
        return f"set the context length to {fits} or less{smaller}"
    if settings.kv_type == "f16" and full.cache * 0.55 < left:
        return "set the KV cache format to q8_0"
    return (
        "choose a smaller model or a more strongly quantized file of this one, or let other machines hold layers: "
        "start python -m omnidraft worker there and name it with --workers or on the Models page"
    )


def _simulate(request: dict) -> tuple[int, int, int] | None:
    settings = replace(ModelSettings(), **request["settings"])
    cards = local_cards() if request["cards"] else []
    if request["cards"] and not cards:
        return None  # the program sees one that its child does not
    return simulate(
        read_info(request["path"]), settings, request["n_ctx"], request["max_rows"], request["rollback"], cards
    )


def simulate(
    info: ModelInfo, settings: ModelSettings, n_ctx: int, max_rows: int, rollback: int, cards: Sequence[Device]
) -> tuple[int, int, int]:
    """Bytes as llama.cpp logs them where it reserves nothing: (cache, buffers here, those of the fullest card).

    All layers are on `cards` in equal shares, on the processor if there are none. To be called in a child process.
    """
    from omnidraft.backends.llama.context import LlamaContext

    shares = [info.layers * (i + 1) // len(cards) - info.layers * i // len(cards) for i in range(len(cards))]
    with llama_vocab.recording() as pieces:
        LlamaContext(
            info, settings, n_ctx, max_rows, rollback, simulated=True,
            placement=Placement([card.handle for card in cards], shares),
        ).close()  # fmt: skip
    log = "".join(pieces)
    buffers: Counter[str] = Counter()
    for name, found in _BUFFER.findall(log):
        buffers[name.partition("[")[0]] += int(float(found) * _MIB)
    on_cards = [buffers.pop(card.name, 0) for card in cards]
    cache = sum(float(found) for found in _CACHE.findall(log))
    return int(cache * _MIB), sum(buffers.values()), max(on_cards, default=0)


if __name__ == "__main__":
    print(json.dumps(_simulate(asked())))


# How many layers of a model lie on this machine's graphics cards: `place`. Counted from the file's header and what is
# free on each card; where that comes close, llama.cpp is asked for what it computes in. Knows nothing of who loads
# what, or when.


SPARE = 0.95  # of what is free may be filled: drivers take some for themselves while they compute


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
