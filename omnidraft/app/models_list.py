"""The models there are: where they are looked for, how each is called, and which is used when nobody says. Loads
nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.app.catalog import DEFAULT, is_right
from omnidraft.backends.discovery import find_models, projector_for
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.hf.folder import is_model_folder
from omnidraft.errors import ModelError
from omnidraft.format import short
from omnidraft.settings.config import AppSettings
from omnidraft.storage.files import real
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

BUNDLED_DRAFTER = "smol-drafter"
TOY_DRAFTER = "tiny-drafter"  # of the toys: it knows their small world, and is quicker than a guess is worth there
_DEFAULTS = AppSettings()


def folders(assistant: Assistant) -> list[Path]:
    """Bundled, the data home's, and the user's own."""
    own = [Path(folder) for folder in assistant.settings.model_folders]
    return [BUNDLED_MODELS, assistant.home.models, *(folder for folder in own if not is_private(assistant, folder))]


def scan(assistant: Assistant) -> list[ModelInfo]:
    """Every model there, and the targets that were named wherever they lie; what a profile has trained stays out,
    whichever way a folder leads to it."""
    found = find_models(folders(assistant), assistant.settings.model_programs, _named(assistant))
    return [model for model in found if not is_private(assistant, model.path)]


def _named(assistant: Assistant) -> list[Path]:
    """Files and model folders that are targets because the command line or the settings say so."""
    found = (existing_path(name) for name in (assistant.named, assistant.settings.target) if name)
    return [path.absolute() for path in found if path is not None and (path.is_file() or is_model_folder(path))]


def is_private(assistant: Assistant, path: Path) -> bool:
    """Whether something lies inside the folder of a profile, this one or another."""
    return real(path).is_relative_to(real(assistant.home.profiles))


def targets(assistant: Assistant) -> list[ModelInfo]:
    """Models one would talk to: the bundled drafters only draft."""
    return [m for m in scan(assistant) if m.kind == "model" and not is_bundled_drafter(m)]


def is_bundled_drafter(model: ModelInfo) -> bool:
    return model.name in (BUNDLED_DRAFTER, TOY_DRAFTER) and real(model.path.parent) == real(BUNDLED_MODELS)


def is_bundled(path: Path) -> bool:
    return real(path).is_relative_to(real(BUNDLED_MODELS))


def is_toy(path: Path | None) -> bool:
    return path is not None and path.name.startswith("tiny-") and is_bundled(path)


def projector_of(model: ModelInfo, projectors: Sequence[str] = ()) -> Path | None:
    """What a model would see pictures through; see `projector_for`."""
    return projector_for(model.path, projectors) if model.kind == "model" and model.path.is_file() else None


def fits_projector(model: ModelInfo, projector: ModelInfo) -> bool:
    """Whether what a projector makes of a picture is as wide as what the model reads."""
    return read_header(projector.path).metadata.get("clip.vision.projection_dim") == model.width


def label(model: ModelInfo, projectors: Sequence[str] = ()) -> str:
    """name · size · quantization, and whether it sees."""
    sees = "sees pictures" if projector_of(model, projectors) else ""
    parts = [model.name, short(model.parameters) if model.parameters else "", model.quantization, sees]
    return " · ".join(part for part in parts if part)


def identifiers(models: list[ModelInfo]) -> dict[str, ModelInfo]:
    """What programs call each model: as short as it can be without standing for two."""
    counted = Counter(spelling for model in models for spelling in _spellings(model))
    return {next(s for s in _spellings(model) if counted[s] == 1): model for model in models}


def find(models: list[ModelInfo], name: str) -> tuple[str, ModelInfo] | None:
    """(id, model) of what a program or a person calls `name`: an id, or a name as the pages show it."""
    known = identifiers(models)
    if name in known:
        return name, known[name]
    return next((one for one in known.items() if one[1].name == name), None)


def name_of(models: list[ModelInfo], path: Path) -> str | None:
    """What programs call the model at `path`; None if it is none of these."""
    return next((name for name, model in identifiers(models).items() if same_file(model.path, path)), None)


def _spellings(model: ModelInfo) -> list[str]:
    """A file by its name without the ending; a folder's name may hold dots, and a file of Ollama's has none."""
    name = model.path.stem if model.path.suffix.lower() == ".gguf" else model.name
    mark = hashlib.sha256(str(model.path).encode()).hexdigest()[:8]  # clients are told no path of this machine
    return [name, f"{model.path.parent.name}/{name}", f"{name}-{mark}"]


def choices(models: list[ModelInfo], projectors: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(label, path) for a dropdown; labels that would be equal get their folder behind them. projectors: as in
    `AppSettings`."""
    labels = [label(m, projectors) for m in models]
    return [
        (text if labels.count(text) == 1 else f"{text} ({m.path.parent.name})", str(m.path))
        for text, m in zip(labels, models, strict=True)
    ]


def at(models: Sequence[ModelInfo], path: Path | None) -> ModelInfo | None:
    """The model at `path`, whichever way it was spelled; None if it is none of these."""
    return next((model for model in models if same_file(model.path, path)), None)


def chosen(models: list[ModelInfo], path: Path | None) -> str | None:
    """The dropdown value that stands for `path`; None if it is not offered."""
    found = at(models, path)
    return str(found.path) if found is not None else None


def choose_target(given: str | None, home: DataHome, settings: AppSettings = _DEFAULTS) -> Path:
    """The given path, or a name as `models` lists it; without either the profile's target, else a real model that is
    there, else the first bundled one."""
    name = given or settings.target
    if name is None:
        if (real := real_model(home)) is not None:
            return real
        found = [m for m in find_models([BUNDLED_MODELS]) if m.kind == "model" and "drafter" not in m.name]
        if not found:
            raise ModelError("No model was found; name one with --target.")
        return found[0].path
    return _resolve(name, home, settings)


def real_model(home: DataHome) -> Path | None:
    """The model to begin with that somebody fetched: the default one, if it is whole, else the first other one."""
    for folder in (home.models, BUNDLED_MODELS):
        if is_right(path := folder / DEFAULT.file, DEFAULT):
            return path
    others = [m for m in find_models([home.models]) if m.kind == "model" and m.path.name != DEFAULT.file]
    return others[0].path if others else None


def choose_drafter(
    given: str | None, home: DataHome, settings: AppSettings = _DEFAULTS, target: Path | None = None
) -> Path | None:
    """The given drafter, the profile's, or the bundled one for this target; None if there is none."""
    name = given or settings.drafter
    if name is not None:
        return _resolve(name, home, settings)
    wanted = TOY_DRAFTER if is_toy(target) else BUNDLED_DRAFTER
    found = {m.name: m.path for m in find_models([BUNDLED_MODELS])}
    return found.get(wanted, found.get(TOY_DRAFTER))


def need_drafter(given: str | None, home: DataHome, target: Path | None = None) -> Path:
    """`choose_drafter` for what is of no use without one."""
    found = choose_drafter(given, home, target=target)
    if found is None:
        raise ModelError("No drafter was found; name one with --drafter.")
    return found


def same_file(one: Path | None, other: Path | None) -> bool:
    """Whether both lead to one file, whichever way it was spelled."""
    return one is not None and other is not None and real(one) == real(other)


def existing_path(name: str) -> Path | None:
    """The path of this name; None if nothing is there."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL inside, no such user: then it is no path
        return None


def _resolve(name: str, home: DataHome, settings: AppSettings) -> Path:
    if (path := existing_path(name)) is not None:
        return path
    folders = [BUNDLED_MODELS, home.models, *map(Path, settings.model_folders)]
    models = [m for m in find_models(folders, settings.model_programs) if m.kind != "projector"]
    matches = [m.path for m in models if name in (m.name, m.path.stem)]
    if not matches and name.endswith(".gguf"):  # a bundled one that a version before had in another quantization
        matches = [m.path for m in models if is_bundled(m.path) and Path(name).name.startswith(f"{m.name}-")]
    if not matches:
        raise ModelError(f"There is no model file or known model named {name[:200]}.")
    return matches[0]
