"""Drafters on the Hub for a target, the best fit first: by the tokens that map directly, from `tokenizer.json` alone.

The vocabularies are small and are kept, so that a second look asks nobody. Nothing is fetched unless a button is
pressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omnidraft.app.hub_files import HubError, RemoteFile, request_of, unreachable
from omnidraft.errors import OmniDraftError
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import make_folder
from omnidraft.vocab import PairMap, Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json

# Small models of Llama's shape, which the app can convert, draft with and train: (repository, what it is).
DRAFTERS = (
    ("JackFram/llama-68m", "68M; 0.3 GB; Apache 2.0"),
    ("JackFram/llama-160m", "160M; 0.6 GB; Apache 2.0"),
    ("HuggingFaceTB/SmolLM2-135M-Instruct", "135M; 0.3 GB; Apache 2.0"),
)
MOST = 40 << 20  # bytes of a tokenizer.json


@dataclass(frozen=True, slots=True)
class Drafter:
    """share: of the target's tokens that one of the drafter's equals; None where that cannot be told, and `why`."""

    repo: str
    about: str
    share: float | None
    why: str = ""

    def label(self) -> str:
        known = f"{self.share:.0%} of its tokens map directly" if self.share is not None else self.why
        return f"{self.repo} · {known} · {self.about}"


def compare(target: Vocabulary, cache: Path) -> Iterator[Drafter]:
    """Each known drafter against the target's vocabulary; those that cannot be looked at say why."""
    for repo, about in DRAFTERS:
        yield compared(repo, about, target, cache)


def compared(repo: str, about: str, target: Vocabulary, cache: Path) -> Drafter:
    try:
        report = PairMap.build(_vocabulary(repo, cache), target, cache).report()
    except OmniDraftError as error:
        return Drafter(repo, about, None, str(error).rstrip("."))
    return Drafter(repo, about, report["direct"] / max(report["target_size"], 1))


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
    from huggingface_hub.utils import get_session

    url, headers = request_of(file, 0)
    held = bytearray()
    try:
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes(1 << 18):
                held += chunk
                if len(held) > MOST:
                    raise HubError(f"{file.repo} has a tokenizer of more than {MOST >> 20} MB")
    except HubError:
        raise
    except Exception as error:
        raise unreachable(error) from None
    return bytes(held)
