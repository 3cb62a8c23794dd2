"""Which models a command uses when it is not told: the profile's choice, else a real one that is there, else the
bundled ones."""

from __future__ import annotations

from pathlib import Path

from omnidraft.app.catalog import DEFAULT, is_right
from omnidraft.backends.discovery import find_models
from omnidraft.errors import ModelError
from omnidraft.settings.config import AppSettings
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

BUNDLED_DRAFTER = "smol-drafter"
TOY_DRAFTER = "tiny-drafter"  # of the toys: it knows their small world, and is quicker than a guess is worth there
_DEFAULTS = AppSettings()


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
    toy = target is not None and target.resolve().is_relative_to(BUNDLED_MODELS.resolve())
    wanted = TOY_DRAFTER if toy and target is not None and target.name != DEFAULT.file else BUNDLED_DRAFTER
    found = {m.name: m.path for m in find_models([BUNDLED_MODELS])}
    return found.get(wanted, found.get(TOY_DRAFTER))


def need_drafter(given: str | None, home: DataHome, target: Path | None = None) -> Path:
    """`choose_drafter` for what is of no use without one."""
    found = choose_drafter(given, home, target=target)
    if found is None:
        raise ModelError("No drafter was found; name one with --drafter.")
    return found


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
    if not matches:
        raise ModelError(f"There is no model file or known model named {name[:200]}.")
    return matches[0]
