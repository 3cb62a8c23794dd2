"""A profile from a zip file that anyone may have made: unpacked beside the others, checked, and only then let in."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omnidraft.errors import OmniDraftError, SettingsError, StorageError
from omnidraft.profiles.checks import FREE_BYTES, MAX_RATIO, check_adapter_file, check_chats, check_database
from omnidraft.profiles.exporting import BLOCK, FORMAT, MANIFEST, VERSION
from omnidraft.profiles.folders import DATABASES, INCOMING, free_name
from omnidraft.settings.config import changed
from omnidraft.settings.file import load_settings, save_settings
from omnidraft.storage.encryption.conversion import encrypt_folder
from omnidraft.storage.files import erase, readable, reason, sync_folder
from omnidraft.storage.paths import DataHome, ProfilePaths, make_folder, profile_name
from omnidraft.storage.scratch import Scratch
from omnidraft.storage.vault import vault_of

MAX_ENTRIES = 20_000
MAX_BYTES = 8 << 30
MAX_MANIFEST = 4 << 20  # parsed, it takes 25 times its size
MAX_SETTINGS = 1 << 20
MAX_DEPTH = 6  # adapters/<drafter>/<vocabulary>/<version>/<file>, and one more


def import_profile(home: DataHome, archive: Path, name: str | None = None) -> ProfilePaths:
    """Add the profile in `archive` under `name` (by default its own) and return it.

    Raises StorageError, and changes nothing, if the file is damaged, too large, not a profile, holds anything but a
    profile's files or anything that could run code, or if a profile of that name exists.
    """
    vault = vault_of(home.profiles / INCOMING)
    with readable(archive) as opened, _unpacked(home, opened) as (own_name, staging):
        wanted = free_name(home, own_name if name is None else name)
        _check(ProfilePaths.inside(staging))
        target = home.profile(wanted, create=False)
        free_name(home, wanted)  # the checks may have taken a while
        if vault is None:
            os.rename(staging, target.root)
        else:
            with Scratch(INCOMING, home.profiles) as folder:
                encrypt_folder(vault, staging, folder / wanted)
                os.rename(folder / wanted, target.root)
        sync_folder(home.profiles)
        return target


def check_archive(home: DataHome, archive: Path) -> None:
    """StorageError unless the readable `archive` could be imported."""
    with _unpacked(home, archive) as (_, staging):
        _check(ProfilePaths.inside(staging))


@contextmanager
def _unpacked(home: DataHome, archive: Path) -> Iterator[tuple[str, Path]]:
    """The profile's own name, and its files in a folder that lies in memory if the home is encrypted."""
    make_folder(home.profiles)
    vault = vault_of(home.profiles / INCOMING)
    try:
        with Scratch(INCOMING, home.profiles if vault is None else vault.memory) as folder:
            staging = folder / "profile"
            make_folder(staging)
            yield _unpack(archive, staging), staging
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, UnicodeError) as error:
        raise StorageError(f"{archive} cannot be imported: it is damaged or not a zip file.") from error
    except OSError as error:
        raise StorageError(f"{archive} cannot be imported: {reason(error)}.") from error


def _unpack(archive: Path, staging: Path) -> str:
    """Everything the manifest lists, after looking at every name and size. Returns the profile's own name."""
    with zipfile.ZipFile(archive) as source:
        entries = source.infolist()
        if len(entries) > MAX_ENTRIES:
            raise _refused(archive, f"it holds more than {MAX_ENTRIES:,} files")
        by_path = {entry.filename: entry for entry in entries if entry.filename != MANIFEST}
        manifest = _manifest(source, archive)
        listed = {line["path"]: line for line in manifest["files"]}
        if len(by_path) != len(entries) - 1 or by_path.keys() != listed.keys():
            raise _refused(archive, "its files are not those it lists")
        if len({path.casefold() for path in by_path}) != len(by_path):
            raise _refused(archive, "two of its files have the same name")
        total = sum(line["bytes"] for line in listed.values())
        _check_room(archive, staging, total)
        for path, entry in by_path.items():
            _check_entry(archive, entry)
            if path == ProfilePaths.inside(Path()).settings.name and listed[path]["bytes"] > MAX_SETTINGS:
                raise _refused(archive, "its settings are too long")
            _extract(source, entry, staging / path, listed[path], archive)
    return manifest["name"]


def _manifest(source: zipfile.ZipFile, archive: Path) -> dict[str, Any]:
    try:
        entry = source.getinfo(MANIFEST)
    except KeyError:
        raise _refused(archive, "it is not a profile exported by OmniDraft") from None
    if entry.file_size > MAX_MANIFEST:
        raise _refused(archive, "its list of files is too long")
    try:
        manifest = json.loads(source.read(entry))
    except (ValueError, RecursionError):
        raise _refused(archive, "its list of files is damaged") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _refused(archive, "it is not a profile exported by OmniDraft")
    if manifest.get("version") != VERSION:
        raise _refused(archive, "another version of OmniDraft wrote it")
    try:
        profile_name(manifest.get("name", ""))
    except SettingsError:
        raise _refused(archive, "the profile's name is not a possible one") from None
    files = manifest.get("files")
    if not isinstance(files, list) or not all(map(_is_line, files)):
        raise _refused(archive, "its list of files is damaged")
    return manifest


def _is_line(line: Any) -> bool:
    kinds = {"path": str, "bytes": int, "sha256": str}
    right = isinstance(line, dict) and all(type(line.get(name)) is kind for name, kind in kinds.items())
    return right and line["bytes"] >= 0


def _check_room(archive: Path, staging: Path, total: int) -> None:
    if total > MAX_BYTES:
        raise _refused(archive, f"it would take {total:,} bytes, more than the {MAX_BYTES:,} allowed")
    if total > MAX_RATIO * archive.stat().st_size + FREE_BYTES:
        raise _refused(archive, f"it would take {total:,} bytes, far more than a profile packed so small has")
    if total > shutil.disk_usage(staging).free:
        raise _refused(archive, f"it would take {total:,} bytes, more than the disk has free")


def _check_entry(archive: Path, entry: zipfile.ZipInfo) -> None:
    """Only a profile's own files, plain ones, under plain relative names."""
    path, mode = entry.filename, entry.external_attr >> 16
    parts = path.split("/")
    profile = ProfilePaths.inside(Path())
    known = {profile.settings.name, *(getattr(profile, name).name for name in DATABASES)}
    adapter = parts[0] == profile.adapters.name and 1 < len(parts) <= MAX_DEPTH
    if path not in known and not (adapter and all(map(_is_plain, parts))):
        raise _refused(archive, f"it holds {path[:80]!r}, which is not part of a profile")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or entry.is_dir():
        raise _refused(archive, f"{path[:80]!r} in it is not a plain file")
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refused(archive, f"{path[:80]!r} in it is encrypted or packed in an unusual way")


def _is_plain(part: str) -> bool:
    allowed = all(c.isalnum() or c in " ._-+=@" for c in part)
    return allowed and 0 < len(part) <= 150 and not part.startswith(".") and part[-1] not in " ."


def _extract(
    source: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, line: dict[str, Any], archive: Path
) -> None:
    """Unpack one file (mode 0600), stopping at the size the manifest gives it."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, source.open(entry) as packed:
        while block := packed.read(BLOCK):
            size += len(block)
            if size > line["bytes"]:
                break
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    if size != line["bytes"] or digest.hexdigest() != line["sha256"]:
        raise _refused(archive, f"{entry.filename} in it is damaged")


def _check(paths: ProfilePaths) -> None:
    """The content of every unpacked file. Messages name the file as the profile will know it."""
    try:
        _forget_workers(paths.settings)
        for name in DATABASES:
            if (database := getattr(paths, name)).exists():
                check_database(database)
        if paths.chats.exists():
            check_chats(paths.chats)
        for file in paths.adapters.rglob("*"):
            if file.is_file():
                check_adapter_file(file)
    except OmniDraftError as error:
        message = str(error).replace(f"{paths.root}{os.sep}", "")
        raise StorageError(f"The profile cannot be imported. {message}") from error


def _forget_workers(path: Path) -> None:
    """Workers belong to the machine they were named on: an archive shall not decide whom this one talks to."""
    settings, _ = load_settings(path)
    if settings.model.workers or settings.model.split:
        save_settings(path, changed(settings, **{"model.workers": None, "model.split": None}))


def _refused(archive: Path, why: str) -> StorageError:
    return StorageError(f"{archive} cannot be imported: {why}.")


# Where files that a browser sends lie until they are read: in the data home, so that they go with it. A file goes as
# soon as it was read, the rest when everything is forgotten and when the app starts. Knows nothing of what is in them.


_DIGEST = re.compile("[0-9a-f]{64}")  # Gradio keeps an upload in a folder named after its content


@contextmanager
def taken(upload: Path) -> Iterator[Path]:
    """An upload to read; afterwards it is gone, whatever was in it, with the folder that held it alone.

    Anything but a plain file stays: a request may name a folder instead.
    """
    try:
        yield upload
    finally:
        if upload.is_file():
            with suppress(StorageError):
                erase(upload)
        if _DIGEST.fullmatch(upload.parent.name):
            with suppress(OSError):
                upload.parent.rmdir()


def clear_uploads(home: DataHome) -> None:
    """Remove, unreadably, what was sent and never read. StorageError if something cannot be removed."""
    make_folder(home.uploads)
    for path in sorted(home.uploads.iterdir()):
        erase(path)
