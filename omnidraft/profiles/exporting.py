"""A profile as one zip file: a consistent copy of every part, with a list of what is inside.

Databases are copied through SQLite's backup, so a profile may be in use; adapters are never changed in place, so
links to their files are a snapshot.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zipfile
from contextlib import closing, suppress
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.profiles.folders import DATABASES, OUTGOING, existing
from omnidraft.settings.file import load_settings
from omnidraft.storage import database
from omnidraft.storage.files import read, reason
from omnidraft.storage.paths import DataHome, ProfilePaths, make_folder
from omnidraft.storage.scratch import Scratch, replacing
from omnidraft.storage.vault import vault_of

FORMAT = "omnidraft-profile"
VERSION = 1
MANIFEST = "manifest.json"
BLOCK = 1 << 20


def export_profile(home: DataHome, name: str, destination: Path, *, overwrite: bool = False) -> Path:
    """Write the profile to `destination` (a file, or a folder to put `<name>.zip` in) and return the file's path.

    Raises StorageError if there is no such profile, a part is damaged, or the file exists and `overwrite` is False.
    """
    profile = existing(home, name)
    destination = Path(destination)
    target = destination / f"{profile.name}.zip" if destination.is_dir() else destination
    if os.path.lexists(target) and not overwrite:
        raise StorageError(f"{target} exists already; choose another name.")
    load_settings(profile.settings)  # a file that no one could import again is refused here
    try:
        vault = vault_of(profile.root)
        place = home.profiles if vault is None else vault.memory  # the copy is readable
        with Scratch(OUTGOING, place) as folder, replacing(target) as made:
            staging = folder / profile.name
            make_folder(staging)
            _snapshot(profile, staging)
            _write(profile.name, staging, made)
    except OSError as error:
        raise StorageError(f"The profile {name} cannot be exported to {target}: {reason(error)}.") from error
    return target


def _snapshot(paths: ProfilePaths, staging: Path) -> None:
    for name in DATABASES:
        source: Path = getattr(paths, name)
        if source.is_file() and source.stat().st_size:
            _back_up(source, staging / source.name)
    if paths.settings.is_file():
        (staging / paths.settings.name).write_bytes(read(paths.settings))
    if paths.adapters.is_dir():
        _link_tree(paths.adapters, staging / paths.adapters.name)


def _back_up(source: Path, copy: Path) -> None:
    """A consistent copy of a database that may be written to meanwhile, without what was deleted from it."""
    try:
        if (vault := vault_of(source)) is not None:
            database.copy(source, copy, vault.key_for(source), None)  # which leaves out what VACUUM does
            return
        with closing(database.connect(source, timeout=10)) as live, closing(database.connect(copy)) as saved:
            live.execute("PRAGMA query_only=ON")
            live.backup(saved)
            saved.execute("PRAGMA journal_mode=DELETE")  # one file, no log beside it
            saved.execute("PRAGMA temp_store=MEMORY")
            saved.execute("VACUUM")
            saved.execute("PRAGMA journal_mode=DELETE")
    except database.Error as error:
        raise StorageError(f"{source} cannot be exported: {error}.") from error


def _link_tree(source: Path, copy: Path) -> None:
    """Adapter versions as they are now. One that is pruned or still being written (a dotted name) is left out."""
    for folder, inner, names in os.walk(source):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            target = copy / file.relative_to(source)
            if name.startswith(".") or file.is_symlink():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                _link_or_copy(file, target)


def _link_or_copy(file: Path, target: Path) -> None:
    if vault_of(file) is not None:
        target.write_bytes(read(file))
        return
    try:
        os.link(file, target)
    except OSError:  # another file system, or one without links; a file that is gone is missed once more
        shutil.copyfile(file, target)


def _write(name: str, staging: Path, made: Path) -> None:
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        files = [_add(archive, file, staging) for file in sorted(staging.rglob("*")) if file.is_file()]
        manifest = {"format": FORMAT, "version": VERSION, "name": name, "created": time.time(), "files": files}
        archive.writestr(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))


def _add(archive: zipfile.ZipFile, file: Path, staging: Path) -> dict[str, str | int]:
    """Put one file in and return its line of the manifest."""
    path = file.relative_to(staging).as_posix()
    digest, size = hashlib.sha256(), 0
    with open(file, "rb") as source, archive.open(path, "w", force_zip64=True) as target:
        while block := source.read(BLOCK):
            digest.update(block)
            size += len(block)
            target.write(block)
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}
