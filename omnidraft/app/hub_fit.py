"""What the files of a repository would take of the memory, by the formula that refuses a load, before they are fetched.

The first megabytes of one file, its header, say the shape of all: they differ in how the same weights are packed.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from omnidraft.app.hub_files import HubError, RemoteFile, RemoteModel, chunks, unreachable
from omnidraft.app.models_list import context_of
from omnidraft.app.outlook import chance, gain
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.estimate import header_estimate, weight_bytes
from omnidraft.backends.llama.sizes import tensor_bytes
from omnidraft.decoding.cost import CostModel
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.format import percent, size
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import make_folder
from omnidraft.vocab import PairMap, Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json

LOOKS = tuple(size << 20 for size in (1, 4, 8, 16, 32, 64))  # bytes after which the header may be whole
EIGHT_BITS = 1.15  # bytes per parameter: beyond that a file is not better, only larger


@dataclass(frozen=True, slots=True)
class Fit:
    """A model on the Hub and the bytes of memory it takes; None where its header could not be had."""

    model: RemoteModel
    memory: int | None
    parameters: int = 0

    def fits(self, free: int | None) -> bool:
        """By its size alone, where nothing else is known."""
        return free is None or (self.memory or self.model.size) <= free


def fits(models: list[RemoteModel], settings: ModelSettings, cache: Path) -> list[Fit]:
    """Each model with what it takes. Fetches one header, into a file in `cache` that is gone afterwards."""
    whole = [model for model in models if len(model.files) == 1 and not model.convert]
    if not whole:
        return [Fit(model, None) for model in models]
    make_folder(cache)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        path = Path(folder) / "header.gguf"
        if not _fetch_header(min(whole, key=lambda model: model.size).files[0], path):
            return [Fit(model, None) for model in models]
        info = read_info(path)
        known = header_estimate(info, settings, context_of(info, settings))
        # Beside the tensors: the vocabulary as llama.cpp holds it, the cache, and buffers to compute in.
        beside = weight_bytes(info) - sum(tensor_bytes(info).values()) + known.cache + known.compute
        return [Fit(model, model.size + beside, info.parameters) for model in models]


def best(found: list[Fit], free: int | None) -> Fit | None:
    """The one to take: the largest that fits, of those that are packed at all where there are such."""
    fitting = [one for one in found if one.fits(free)]
    packed = [one for one in fitting if one.model.weights <= EIGHT_BITS * one.parameters]
    return max(packed or fitting, key=lambda one: one.model.size, default=None)


def _fetch_header(file: RemoteFile, path: Path) -> bool:
    """Write the file's beginning, as much as its header needs, and leave the rest empty; False if that is no header."""
    looks = iter(sorted({min(size, file.size) for size in LOOKS}))
    look, held = next(looks), bytearray()
    try:
        for chunk in chunks(file):
            held += chunk
            while len(held) >= look:
                if _is_whole(path, held, file.size):
                    return True
                if (following := next(looks, None)) is None:
                    return False
                look = following
    except OSError as error:
        raise unreachable(error) from None
    return False


def _is_whole(path: Path, held: bytes | bytearray, size: int) -> bool:
    """Whether the header ends within what is there. The rest reads as zeros, which could pass for more of it."""
    path = path.with_name(f"{len(held)}.gguf")  # headers are remembered by their file's name
    path.write_bytes(held)
    os.truncate(path, max(size, len(held)))  # sparse: takes no room on the disk
    try:
        whole = read_header(path).data_start <= len(held) and read_info(path).kind == "model"
    except ModelError:
        whole = False
    if whole:
        path.rename(path.with_name("header.gguf"))
    else:
        path.unlink()
    return whole


# Drafters on the Hub for a target, the best fit first: by the tokens that map directly, from `tokenizer.json` alone,
# and what a step of theirs costs. The vocabularies are small and are kept, so that a second look asks nobody. Nothing
# is fetched unless a button is pressed.


@dataclass(frozen=True, slots=True)
class Known:
    """A small model of Llama's shape, which the app can convert, draft with and train. about: its size and licence."""

    repo: str
    parameters: int
    about: str


DRAFTERS = (
    Known("JackFram/llama-68m", 68_000_000, "68M; 0.3 GB; Apache 2.0"),
    Known("JackFram/llama-160m", 162_000_000, "160M; 0.6 GB; Apache 2.0"),
    Known("HuggingFaceTB/SmolLM2-135M-Instruct", 135_000_000, "135M; 0.3 GB; Apache 2.0"),
)
_BYTES = 34 / 32  # of a weight of a drafter that the app converted
MOST = 40_000_000  # bytes of a tokenizer.json


@dataclass(frozen=True, slots=True)
class Drafter:
    """share: of the target's tokens that one of the drafter's equals; None where that cannot be told, and `why`."""

    known: Known
    share: float | None
    why: str = ""

    def label(self) -> str:
        return f"{percent(self.share)} of its tokens map directly" if self.share is not None else self.why


@dataclass(frozen=True, slots=True)
class Worth:
    """step: seconds of a draft step over those of a plain pass; speedup: over plain decoding, below 1 where no guess
    pays."""

    step: float
    speedup: float


def worth(known: Known, target_bytes: int, cost: CostModel) -> Worth:
    """By the weights that a step and a pass read, and what passes of the target take."""
    step = known.parameters * _BYTES / target_bytes
    return Worth(step, gain(cost, step, chance(known.parameters)))


def compared(known: Known, target: Vocabulary, cache: Path) -> Drafter:
    """A drafter against the target's vocabulary; one that cannot be looked at says why."""
    try:
        report = PairMap.build(_vocabulary(known.repo, cache), target, cache).report()
    except OmniDraftError as error:
        return Drafter(known, None, str(error).rstrip("."))
    return Drafter(known, report["direct"] / max(report["target_size"], 1))


def ranked(found: list[Drafter]) -> list[Drafter]:
    return sorted(found, key=lambda one: -(one.share if one.share is not None else -1.0))


def _vocabulary(repo: str, cache: Path) -> Vocabulary:
    folder = cache / "tokenizers" / repo.replace("/", "--")
    path = folder / "tokenizer.json"
    if not path.is_file():
        data = _fetch(RemoteFile(repo, "tokenizer.json", 0, None))
        make_folder(folder.parent)
        make_folder(folder)
        write_atomically(path, data)
    try:
        return read_tokenizer_json(path)
    except (OmniDraftError, ValueError):  # damaged, or without a token for some byte
        os.unlink(path)  # the next look fetches it anew
        raise HubError(f"{repo} has no tokenizer that can be read") from None


def _fetch(file: RemoteFile) -> bytes:
    held = bytearray()
    for chunk in chunks(file):
        held += chunk
        if len(held) > MOST:
            raise HubError(f"{file.repo} has a tokenizer of more than {size(MOST)}")
    return bytes(held)
