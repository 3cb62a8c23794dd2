"""Models that other programs keep on this machine, each in its own layout: Hugging Face, LM Studio, Ollama.

Nothing is looked at unless a caller names the program. Files are read where they lie and never changed. Knows the
layouts of folders, not of model files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = {"huggingface": "Hugging Face", "lmstudio": "LM Studio", "ollama": "Ollama"}
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_LIBRARY = ("", "registry.ollama.ai", "library")


def places(program: str) -> list[Path]:
    """Where the program keeps models here: the folders its own environment variables name, else the usual ones."""
    home = Path.home()
    if program == "huggingface":
        base = Path(os.environ.get("HF_HOME") or home / ".cache/huggingface")
        return [Path(os.environ.get("HF_HUB_CACHE") or base / "hub")]
    if program == "lmstudio":
        return [home / ".lmstudio/models", home / ".cache/lm-studio/models"]
    if given := os.environ.get("OLLAMA_MODELS"):
        return [Path(given)]
    return [home / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def named_files(program: str) -> Iterator[tuple[Path, str | None]]:
    """(path, name) of every model file or folder of a program; None where the file's own name will do.

    Nothing for a program that is not known.
    """
    for folder in filter(_readable, places(program) if program in PROGRAMS else ()):
        if program == "huggingface":
            yield from _hugging_face(folder)
        elif program == "ollama":
            yield from _ollama(folder)
        else:
            yield folder, None


def _readable(folder: Path) -> bool:
    try:
        return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)
    except OSError:
        return False


def _hugging_face(cache: Path) -> Iterator[tuple[Path, str | None]]:
    """models--owner--name/snapshots/REVISION: the revision that `main` names, else the newest."""
    for repository in sorted(cache.glob("models--*")):
        revisions = [path for path in (repository / "snapshots").glob("*") if path.is_dir()]
        if revisions:
            main = _text(repository / "refs" / "main")
            chosen = next((r for r in revisions if r.name == main), max(revisions, key=_changed))
            yield chosen, repository.name.removeprefix("models--").replace("--", "/")


def _ollama(folder: Path) -> Iterator[tuple[Path, str]]:
    """manifests/HOST/OWNER/NAME/TAG name the blob that holds the weights."""
    for manifest in sorted(path for path in (folder / "manifests").rglob("*") if path.is_file()):
        try:
            layers = json.loads(_text(manifest))["layers"]
            digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
        except (ValueError, KeyError, TypeError):
            continue
        *owner, name, tag = ("", *manifest.relative_to(folder / "manifests").parts)
        shown = name if tuple(owner) == _LIBRARY else "/".join((*owner[2:], name))
        for digest in digests[:1]:
            blob = folder / "blobs" / str(digest).replace(":", "-")
            if blob.parent == folder / "blobs" and blob.is_file():
                yield blob, f"{shown}:{tag}"


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
