"""A profile as one file beside the profiles, opened once to see that it is whole: made before its files are rewritten.

One that was made before a conversion or a migration goes when a later start has opened the result; one that was asked
for stays. They lie among the profiles, so they are encrypted as those are, and converted with them; what forgets a
profile's text removes its backups.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path

from omnidraft.chats.schema import MIGRATIONS as CHATS
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.learning.material.history import MIGRATIONS as HISTORY
from omnidraft.profiles.exporting import export_profile
from omnidraft.profiles.folders import DATABASES, OUTGOING, backups_of, existing, list_profiles
from omnidraft.profiles.importing import check_archive
from omnidraft.settings.file import load_settings
from omnidraft.storage.database import check, is_behind
from omnidraft.storage.files import erase, put_in
from omnidraft.storage.paths import DataHome, ProfilePaths, make_folder
from omnidraft.storage.scratch import Scratch, replacing
from omnidraft.storage.vault import BACKUPS, vault_of

log = logging.getLogger(__name__)
_MIGRATED = (("chats", CHATS), ("metrics", HISTORY))


def back_up(home: DataHome, name: str, *, asked_for: bool = False) -> Path:
    """The file, which `import_profile` takes. StorageError if a part of the profile is damaged or there is no room."""
    profile = existing(home, name)
    folder = home.profiles / BACKUPS
    make_folder(folder)
    when = time.strftime("@%Y-%m-%d-%H%M%S") if asked_for else ""
    target = folder / f"{profile.name}{when}.zip"
    vault = vault_of(target)
    place = home.profiles if vault is None else vault.memory  # the archive is readable
    with Scratch(OUTGOING, place) as made, replacing(target) as stored:
        archive = export_profile(home, profile.name, made)
        try:
            check_archive(home, archive)
        except StorageError as error:
            raise StorageError(f"A backup of {profile.name} could not be opened again: {error}") from error
        put_in(archive, stored)
    return target


def back_up_all(home: DataHome) -> None:
    for profile in list_profiles(home):
        if any(profile.root.iterdir()):
            back_up(home, profile.name)


def own_backups(home: DataHome) -> dict[Path, int]:
    """Those nobody asked for, and which file each is: a conversion makes another."""
    files = sorted((home.profiles / BACKUPS).glob("*.zip"))
    return {file: file.stat().st_ino for file in files if "@" not in file.name}


def look_after(home: DataHome, earlier: dict[Path, int]) -> None:
    """Behind the opening of a home: remove those of earlier starts whose profiles open as they are now, and back up
    profiles that an earlier version wrote, before anything brings them forward. What cannot be backed up is said."""
    for file, number in own_backups(home).items():
        paths = home.profile(file.stem, create=False)
        if earlier.get(file) == number and not _is_behind(paths) and _opens(paths):
            erase(file)
    for profile in list_profiles(home):
        if _is_behind(profile) and not backups_of(profile):
            try:
                back_up(home, profile.name)
            except StorageError as error:
                log.warning("%s", error)


def _is_behind(paths: ProfilePaths) -> bool:
    with suppress(StorageError):  # damaged, which whoever opens it says
        return any(is_behind(getattr(paths, part), migrations) for part, migrations in _MIGRATED)
    return False


def _opens(paths: ProfilePaths) -> bool:
    try:
        load_settings(paths.settings)
        for part in DATABASES:
            check(getattr(paths, part))
    except OmniDraftError:
        return False
    return True
