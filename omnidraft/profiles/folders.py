"""Profiles as folders: listed, made, deleted, measured, described."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.database import is_open
from omnidraft.storage.files import erase, reason, remove, sync_folder
from omnidraft.storage.paths import DataHome, Part, ProfilePaths, make_folder, measured, profile_name
from omnidraft.storage.vault import BACKUPS, vault_of

DELETED = ".deleted-"  # renamed so before removal: a kill in between never leaves half a profile


_PARTS = {
    "settings": "Settings, as text you can edit while the app is closed.",
    "chats": "Conversations with all their versions.",
    "ngrams": "The n-gram caches, one per pair of vocabularies.",
    "replay": "Past answers the drafter can learn from.",
    "adapters": "What the drafter has learned, one folder per version.",
    "metrics": "Acceptance and speed over time.",
}
DATABASES = ("chats", "ngrams", "replay", "metrics")


def list_profiles(home: DataHome) -> list[ProfilePaths]:
    """All profiles by name; what is not a profile's folder is passed over."""
    remove_leftovers(home)
    try:
        names = sorted(os.listdir(home.profiles), key=str.casefold)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise StorageError(f"The folder {home.profiles} cannot be made: a file stands in its place.") from None
    except OSError as error:
        raise StorageError(f"The profiles in {home.profiles} cannot be read: {reason(error)}.") from error
    found = []
    for name in names:
        with suppress(SettingsError):
            if profile_name(name) == name and (home.profiles / name).is_dir():
                found.append(home.profile(name, create=False))
    return found


def create_profile(home: DataHome, name: str) -> ProfilePaths:
    """A new, empty profile. StorageError if one of that name exists, SettingsError if the name is refused."""
    free_name(home, name)
    return home.profile(name)


def delete_profile(home: DataHome, name: str) -> None:
    """Remove a profile with everything in it. StorageError if the app has it open."""
    profile = existing(home, name)
    refuse_in_use(profile)
    remove_leftovers(home)
    doomed = home.profiles / f"{DELETED}{uuid.uuid4().hex}"
    erase_backups(profile)
    try:
        os.rename(profile.root, doomed)
        sync_folder(home.profiles)
        remove(doomed)
    except OSError as error:
        raise StorageError(f"The profile {name} was not removed completely: {reason(error)}.") from error


def profile_size(paths: ProfilePaths) -> int:
    """Bytes of everything in the profile's folder, SQLite's logs included."""
    return measured(paths.root)


def describe_profile(paths: ProfilePaths) -> list[Part]:
    """Where each part of a profile lives, what it is, and how many bytes it takes."""
    parts = _PARTS if vault_of(paths.root) is None else {**_PARTS, "settings": "Settings, encrypted."}
    return [Part(name, path, what, measured(path)) for name, what in parts.items() for path in [getattr(paths, name)]]


def erase_backups(paths: ProfilePaths) -> None:
    """Those that earlier versions made of the profile: all that was said is in them."""
    for path in (paths.root.parent / BACKUPS).glob("*.zip"):
        if path.stem.partition("@")[0] == paths.root.name:
            erase(path)


def in_use(paths: ProfilePaths, databases: Sequence[str] = DATABASES) -> bool:
    """Some program, this one included, has one of these databases of the profile open."""
    return any(is_open(getattr(paths, name)) for name in databases)


def existing(home: DataHome, name: str) -> ProfilePaths:
    """The profile of that name; StorageError if there is none."""
    paths = home.profile(name, create=False)
    if not paths.root.is_dir():
        raise StorageError(f"There is no profile named {name}.")
    return paths


def free_name(home: DataHome, name: str) -> str:
    """`name` in its stored form if no profile has it, upper and lower case alike (some file systems cannot tell)."""
    form = profile_name(name)
    make_folder(home.profiles)
    if any(form.casefold() == entry.casefold() for entry in os.listdir(home.profiles)):
        raise StorageError(f"A profile named {form} exists already; choose another name.")
    return form


def refuse_in_use(profile: ProfilePaths) -> None:
    if in_use(profile):
        raise StorageError(f"The profile {profile.name} is in use; close the app first.")


def remove_leftovers(home: DataHome) -> None:
    """Remove what deletions that were killed left."""
    for doomed in home.profiles.glob(f"{DELETED}*"):
        with suppress(OSError):
            remove(doomed)
