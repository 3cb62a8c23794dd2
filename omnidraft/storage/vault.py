"""The keys of encrypted data homes, while this process has them open, and which of them belongs to a file.

All below `profiles` in an encrypted home is encrypted, each part of a profile (its conversations, its adapters, ...)
with a key of its own, so that a child process is handed only those it needs: on its stdin, never as an argument or in
the environment. Whoever opens a file asks here by its path; a home whose key is not here is refused, never written
in the clear. Knows neither passphrases nor formats.

What must lie in a readable file for moments (an adapter that llama.cpp opens, an upload, a race) lies in a folder in
memory, which goes with the vault.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.processes import system
from omnidraft.storage import scratch
from omnidraft.storage.scratch import FileLock, Scratch
from omnidraft.storage.sealed import derive

HEADER = "encryption.json"  # in the data home; it is there as long as the home is encrypted
LOCK = "encryption.lock"  # shared by the programs that use the home, held alone by one that converts it
PROFILES = "profiles"
BACKUPS = ".backups"  # among the profiles
_FOLDER = "omnidraft-"  # names of folders in memory begin so
_OPENED = "opened-"
_HANDED = "vault"  # the entry of a line to a child


class Vault:
    """The keys of one data home. key: the one that all others follow from; without it only those in `parts`.

    memory: a folder of this process alone, or of the process that handed the keys over.
    """

    def __init__(
        self, root: Path, key: bytes | None, parts: Mapping[str, bytes] | None = None, memory: Path | None = None
    ) -> None:
        self.root, self._key, self._parts = root, key, dict(parts or {})
        self._own: Scratch | None = None
        if memory is None:
            if (place := system.memory_folder()) is None:
                raise StorageError(system.NO_MEMORY_FOLDER)
            self._own = Scratch(f"{_FOLDER}{os.getpid()}-", place)
            memory = self._own.path
        self.memory = memory
        self._before: tuple[str | None, str | None] | None = None

    def key(self, part: str) -> bytes:
        """The key of one part of the profiles; StorageError if this process was not given it."""
        if part not in self._parts:
            if self._key is None:
                raise StorageError(f"The {part} in {self.root} are encrypted, and this process was given no key.")
            self._parts[part] = derive(self._key, f"part {part}")
        return self._parts[part]

    def hold(self) -> None:
        """Have it found from now on, and temporary files of this process and its children lie in memory."""
        _held[self.root] = self
        self._before = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.memory)
        system.leave_no_core()

    def close(self) -> None:
        """Forget the keys and remove what lies in memory. Harmless when repeated."""
        _held.pop(self.root, None)
        if self._before is not None:
            tempfile.tempdir, variable = self._before
            os.environ.pop("TMPDIR", None)
            if variable is not None:
                os.environ["TMPDIR"] = variable
            self._before = None
        self._key, self._parts = None, {}
        if self._own is not None:
            self._own.remove()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder in memory, removed when the block ends."""
        with tempfile.TemporaryDirectory(prefix=_OPENED, dir=self.memory) as folder:
            yield Path(folder)


_held: dict[Path, Vault] = {}


def held(root: Path) -> Vault | None:
    """The vault of a data home, if this process has it open."""
    return _held.get(Path(os.path.abspath(root)))


def vault_of(path: Path) -> Vault | None:
    """The vault a file belongs to; None for one that is not to be encrypted.

    StorageError if its home is encrypted and not open here: nobody reads or writes there without a key.
    """
    for folder in Path(os.path.abspath(path)).parents:
        if folder.name == PROFILES:
            root = folder.parent
            if (found := _held.get(root)) is not None:
                return found
            if (root / HEADER).exists():
                raise StorageError(locked(root))
    return None


def key_of(path: Path | str) -> bytes | None:
    """The key of a file; None for one that is not to be encrypted. StorageError as of `vault_of`."""
    path = Path(os.path.abspath(path))
    vault = vault_of(path)
    return None if vault is None else vault.key(part_of(path.relative_to(vault.root / PROFILES)))


def locked(root: Path) -> str:
    """The sentence for who comes without a passphrase."""
    return (
        f"The data in {root} is encrypted: start OmniDraft on a terminal and type the passphrase, or give it with "
        "--passphrase-file or the variable OMNIDRAFT_PASSPHRASE."
    )


def busy(root: Path) -> str:
    """The sentence for who comes while another program has the home."""
    return f"Another OmniDraft is working with the data in {root}; end it, or wait until it has ended."


def part_of(inside: Path) -> str:
    """Which part of a profile a path, beginning with the profile's name, belongs to: "chats", "adapters", ..."""
    if inside.parts[0] == BACKUPS:
        return "backups"
    return inside.parts[1].partition(".")[0] if len(inside.parts) > 1 else "profile"


def is_opened(path: Path | str) -> bool:
    """Whether it is the readable copy of a file that this program encrypted, and so wrote itself."""
    real = Path(os.path.realpath(path))
    return any(real.parent.parent == vault.memory and real.parent.name.startswith(_OPENED) for vault in _held.values())


def with_keys(line: str, path: Path, parts: Collection[str]) -> str:
    """A line of JSON (an object) for a child, which adds the keys of some parts of the home that holds `path`."""
    vault = vault_of(path)
    if vault is None:
        return line
    keys = {part: vault.key(part).hex() for part in parts}
    handed = {"root": str(vault.root), "memory": str(vault.memory), "keys": keys}
    return json.dumps({**json.loads(line), _HANDED: handed}) + "\n"


def take_keys(line: str) -> None:
    """In the child: hold what `with_keys` added, if it did, until this process ends. StorageError if the home is being
    converted: the parent has ended."""
    handed = json.loads(line).get(_HANDED)
    if handed is not None:
        root = Path(handed["root"])
        if not FileLock(root / LOCK).acquire(shared=True) or not (root / HEADER).exists():
            raise StorageError(busy(root))
        keys = {part: bytes.fromhex(key) for part, key in handed["keys"].items()}
        Vault(root, None, keys, Path(handed["memory"])).hold()


def sweep() -> None:
    """Remove the folders in memory of processes that were killed: nobody holds their lock."""
    if (folder := system.memory_folder()) is not None:
        scratch.sweep(folder, _FOLDER)
