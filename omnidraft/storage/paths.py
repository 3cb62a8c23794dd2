"""Where OmniDraft keeps a user's data: one function finds the folder, two small classes name what is inside.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.files import LOG_SUFFIXES, reason
from omnidraft.storage.vault import PROFILES, held, vault_of

VARIABLE = "OMNIDRAFT_HOME"
_CHECKOUT = Path(__file__).resolve().parents[2]
# Where app.py, ui/ and models/ lie: beside the package in a checkout, inside it once it is installed.
PROGRAM = _CHECKOUT if (_CHECKOUT / "app.py").is_file() else _CHECKOUT / "omnidraft" / "program"
PORTABLE = PROGRAM / "user_data"
BUNDLED_MODELS = PROGRAM / "models"
DEFAULT_PROFILE = "default"
MAX_NAME = 64
MAX_NAME_BYTES = 200  # file systems stop at 255, and temporary names add to it
# Names that Windows keeps for devices, whatever follows the first dot: a portable folder may be carried there.
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})


@dataclass(frozen=True, slots=True)
class ProfilePaths:
    """Where each part of one profile lives."""

    root: Path
    settings: Path
    chats: Path
    ngrams: Path
    replay: Path
    adapters: Path
    metrics: Path

    @property
    def name(self) -> str:
        return self.root.name

    @classmethod
    def inside(cls, root: Path) -> ProfilePaths:
        return cls(
            root=root,
            settings=root / "settings.toml",
            chats=root / "chats.sqlite",
            ngrams=root / "ngrams.sqlite",
            replay=root / "replay.sqlite",
            adapters=root / "adapters",
            metrics=root / "metrics.sqlite",
        )


class DataHome:
    """The folder of all user data. `models` and `cache` are shared by its profiles; `cache` may be deleted any time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models, self.cache, self.profiles = root / "models", root / "cache", root / PROFILES
        self.log = root / "omnidraft.log"

    @property
    def uploads(self) -> Path:
        """What a browser sent and was not read yet; of an encrypted home in memory."""
        vault = held(self.root)
        return (self.root if vault is None else vault.memory) / "uploads"

    def servers(self, profile: str) -> Path:
        """The file that names the programs whose functions a profile's models may call, if its owner wrote one."""
        return self.root / "mcp" / f"{profile_name(profile)}.json"

    def profile(self, name: str = DEFAULT_PROFILE, *, create: bool = True) -> ProfilePaths:
        """The paths of a profile; its folder is made unless `create` is False.

        Raises SettingsError for a refused name or one that differs from another profile's by upper and lower case
        alone, StorageError if the folder cannot be made or the home is encrypted and not open.
        """
        paths = ProfilePaths.inside(self.profiles / profile_name(name))
        if create:
            vault_of(paths.root)  # which refuses an encrypted home that is not open
            _refuse_other_case(paths.root)
            make_folder(paths.root)
        return paths


def data_root(explicit: Path | str | None = None) -> Path:
    """Where the data home is, or would be made. StorageError for what cannot be a path."""
    if explicit is not None and str(explicit):
        path = Path(explicit)
    elif from_environment := os.environ.get(VARIABLE):
        path = Path(from_environment)
    else:
        path = PORTABLE if (PORTABLE / "portable").is_file() else Path(user_data_dir("omnidraft", appauthor=False))
    try:
        return Path(os.path.realpath(path.expanduser()))
    except (RuntimeError, ValueError, OSError):  # no such user behind a tilde; a NUL in the name
        raise StorageError(f"{str(path)!r} cannot be the data folder: it is not a path.") from None


def find_data_home(explicit: Path | str | None = None) -> DataHome:
    """The data home, made (mode 0700) where it is missing and known to be writable.

    The first of: `explicit` (--data-dir), the variable OMNIDRAFT_HOME, `user_data/` beside app.py if it holds a file
    named `portable`, the system's folder for user data. Raises StorageError.
    """
    root = data_root(explicit)
    home = DataHome(root)
    for folder in (root, home.models, home.cache, home.profiles):
        make_folder(folder)
    for folder in (root, home.profiles):
        _check_writable(folder)
    return home


def profile_name(name: str) -> str:
    """`name` in its stored form (NFC), if it is safe as a folder name on every system; SettingsError otherwise."""
    form = unicodedata.normalize("NFC", name) if isinstance(name, str) else ""
    good = (
        0 < len(form) <= MAX_NAME
        and len(form.encode("utf-8", "replace")) <= MAX_NAME_BYTES
        and all(c in " .-_" or unicodedata.category(c)[0] in "LMN" for c in form)
        and unicodedata.category(form[0])[0] in "LN"
        and form[-1] not in " ."
        and form.split(".")[0].strip().lower() not in DEVICES
    )
    if not good:
        shown = repr(name) if len(str(name)) <= MAX_NAME else f"{str(name)[:MAX_NAME]!r}..."
        raise SettingsError(
            f"A profile cannot be named {shown}: use 1 to {MAX_NAME} letters, digits, spaces, dots, dashes and "
            "underscores, beginning with a letter or digit and not ending with a space or dot."
        )
    return form


def make_folder(folder: Path) -> None:
    """Make `folder` (mode 0700) unless it is there; StorageError if that fails or something else is in its place."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise StorageError(f"The folder {folder} cannot be made: a file stands in its place.") from None
    except OSError as error:
        raise StorageError(f"The folder {folder} cannot be made: {reason(error)}.") from error


def _refuse_other_case(folder: Path) -> None:
    """Some file systems cannot tell such names apart, and people hardly can."""
    with suppress(OSError):
        names = os.listdir(folder.parent)
        if folder.name not in names:
            for name in names:
                if name.casefold() == folder.name.casefold():
                    raise SettingsError(f"There is a profile named {name} already; {folder.name} is too like it.")


def _check_writable(folder: Path) -> None:
    """Make and remove a file: permission bits alone do not tell (root, read-only mounts, full disks)."""
    try:
        os.listdir(folder)
        with tempfile.NamedTemporaryFile(prefix=".write-test-", dir=folder):
            pass
    except OSError as error:
        raise StorageError(f"The data folder {folder} cannot be read and written: {reason(error)}.") from error


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a profile: `name` as in ProfilePaths, `what` one line for a page, `bytes` 0 while it is not there."""

    name: str
    path: Path
    what: str
    bytes: int


def measured(path: Path) -> int:
    """Bytes of a file with what SQLite keeps beside it, or of all files in a folder; 0 if it is not there."""
    return _bytes(path) + sum(_bytes(path.with_name(path.name + suffix)) for suffix in LOG_SUFFIXES)


def _bytes(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # gone meanwhile
                total += os.lstat(os.path.join(folder, name)).st_size
    if path.is_file():
        with suppress(OSError):
            total += path.stat().st_size
    return total
