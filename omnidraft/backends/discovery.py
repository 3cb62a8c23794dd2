"""Finds model files in folders, for the model lists of the command line and the pages.

A file that cannot be used is listed with the sentence that says why, never dropped silently.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from omnidraft.backends.gguf.file import ModelInfo, followed, read_info, split_number
from omnidraft.backends.hf.folder import is_model_folder, read_folder
from omnidraft.errors import ModelError
from omnidraft.settings.config import named_file
from omnidraft.storage.files import real

# Models that other programs keep on this machine, each in its own layout: Hugging Face, LM Studio, Ollama. Nothing is
# looked at unless a caller names the program. Files are read where they lie and never changed. Knows the layouts of
# folders, not of model files.


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
            main, newest = _text(repository / "refs" / "main"), max(revisions, key=lambda path: path.stat().st_mtime)
            name = repository.name.removeprefix("models--").replace("--", "/")
            yield next((one for one in revisions if one.name == main), newest), name


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


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def find_models(
    folders: Iterable[str | Path], programs: Iterable[str] = (), named: Iterable[Path] = ()
) -> list[ModelInfo]:
    """Every .gguf file and Hugging Face folder under `folders`, each once, sorted by name then path. A file may stand
    among the folders.

    programs: other programs (of `PROGRAMS`) whose models are listed too, under the names they have there.
    named: files and model folders that are listed wherever they lie.
    A split model is one entry. A folder's entry has the folder as its path; only targets can be loaded from it.
    Unusable files come back with kind "damaged" and `error` set; other programs' folders that cannot be targets are
    left out, for those hold all sorts of models. Vocabularies, encoders, adapters and projectors are listed with their
    kind, so a caller that offers models to chat with keeps `kind == "model"`.
    """
    found: dict[Path, tuple[Path, str | None]] = {}
    for folder in folders:
        for path in _model_paths(Path(folder)):
            found[real(path)] = (followed(path), None)
    for program in programs:
        for path, name in _paths_of(program):
            found.setdefault(real(path), (followed(path), name))
    for path in named:
        found.setdefault(real(path), (followed(path), None))
    models = [_named(path, name) for path, name in found.values() if split_number(path) in (None, 1)]
    return sorted(models, key=lambda info: (info.name.lower(), str(info.path)))


def _paths_of(program: str) -> Iterator[tuple[Path, str | None]]:
    """Model files of another program, and the names of those whose own say nothing."""
    for path, name in named_files(program):
        if path.is_file():
            yield path, name
            continue
        for inner in _model_paths(path):
            if inner.is_file():
                yield inner, None  # a GGUF file's own name says more than its repository's
            elif _describe(inner).kind == "model":
                yield inner, name


def _model_paths(folder: Path) -> Iterable[Path]:
    if folder.is_file():
        yield folder
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "config.json" in files and is_model_folder(Path(root)):
            yield Path(root)
        for name in sorted(files):
            if name.lower().endswith(".gguf") and not name.startswith("."):
                yield Path(root, name)


def _named(path: Path, name: str | None) -> ModelInfo:
    info = _describe(path)
    return replace(info, name=name) if name else info


def _describe(path: Path) -> ModelInfo:
    """What the file or folder says."""
    try:
        return read_folder(path) if path.is_dir() else read_info(path)
    except OSError as error:
        return ModelInfo(path=path, name=path.stem, kind="damaged", error=f"{path} cannot be read: {error.strerror}.")
    except ModelError as error:
        size = path.stat().st_size if path.is_file() else 0
        return ModelInfo(path=path, name=path.stem, file_size=size, kind="damaged", error=str(error))
    except Exception as error:  # whatever one file holds, the others are listed
        told = f"{path} cannot be read ({type(error).__name__}); it is damaged or no model."
        return ModelInfo(path=path, name=path.stem, kind="damaged", error=told)


# The projector of a model: a file of its own (mmproj), found beside the model by its name, or chosen for it.
# Repositories name it `mmproj-F16.gguf`, or after the model; several models may lie in one folder.


NO_PROJECTOR = "none"

_FORMAT = re.compile(r"\b(q\d+(_[0-9a-z]+)*|iq\d+(_[0-9a-z]+)*|b?f16|fp16|f32|mmproj|model|gguf|\d{5}-of-\d{5})\b")


def projector_for(model: Path, projectors: Sequence[str]) -> Path | None:
    """What a model sees pictures through: what its owner named (see `AppSettings`), else what lies beside it."""
    named = named_file(projectors, model.name)
    if named is None:
        return projector_beside(model)
    return None if named == NO_PROJECTOR else Path(named)


def projector_beside(model: Path) -> Path | None:
    """The projector whose name says most of this model's and nothing else; None where there is none."""
    known = _words(model)
    fitting = [
        path for path in sorted(model.parent.glob("*.gguf"))
        if "mmproj" in path.name.lower() and _words(path) <= known and _is_projector(path)
    ]  # fmt: skip
    return max(fitting, key=lambda path: len(_words(path)), default=None)


def _words(path: Path) -> set[str]:
    """What a file's name says besides its format."""
    name = _FORMAT.sub(" ", re.sub(r"[-.\s]", " ", path.name.lower()))
    return set(re.findall(r"[a-z0-9]+", name))


def _is_projector(path: Path) -> bool:
    try:
        return read_info(path).kind == "projector"
    except ModelError:
        return False
