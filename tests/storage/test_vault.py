"""Who has which key, and that a file of an encrypted home is never opened or made without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.errors import StorageError
from omnidraft.processes import system
from omnidraft.storage import vault
from omnidraft.storage.database import connect
from omnidraft.storage.files import put_in, readable, write_atomically
from omnidraft.storage.vault import HEADER, Vault, vault_of

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

KEY = bytes(range(32))


@pytest.fixture
def root(tmp_path):
    """An encrypted home nobody has open."""
    (tmp_path / "profiles" / "anna" / "adapters").mkdir(parents=True)
    (tmp_path / HEADER).write_text("{}")
    return tmp_path


@pytest.fixture
def opened(root):
    made = Vault(root, KEY)
    made.hold()
    yield made
    made.close()


def test_without_a_key_nothing_is_read_or_written(root):
    file, database = root / "profiles" / "anna" / "settings.toml", root / "profiles" / "anna" / "chats.sqlite"
    for act in (lambda: write_atomically(file, b"x"), lambda: connect(database), lambda: vault_of(file)):
        with pytest.raises(StorageError, match="is encrypted: start OmniDraft"):
            act()
    assert not file.exists()
    assert not database.exists()
    write_atomically(root / "cache.json", b"x")  # tells nothing of anybody
    assert (root / "cache.json").read_bytes() == b"x"


def test_a_library_gets_a_readable_copy_in_memory_that_goes(root, opened, tmp_path):
    made, file = tmp_path / "made.gguf", root / "profiles" / "anna" / "adapters" / "adapter.gguf"
    made.write_bytes(b"GGUF weights")
    put_in(made, file)
    assert b"weights" not in file.read_bytes()
    with readable(file) as copy:
        assert copy.read_bytes() == b"GGUF weights"
        assert copy.is_relative_to(system.memory_folder())
        assert copy.name == file.name
        assert vault.is_opened(copy)
        assert copy.stat().st_mode & 0o077 == 0 or copy.parent.stat().st_mode & 0o077 == 0
    assert not copy.exists()
    with readable(made) as same:
        assert same == made
    assert not vault.is_opened(made)


def test_what_a_killed_program_left_in_memory_is_removed(tmp_path):
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom omnidraft.storage.vault import Vault\n"
        "made = Vault(Path(sys.argv[1]), bytes(32))\n(made.memory / 'open.gguf').write_text('weights')\n"
        "print(made.memory, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120)
    left = Path(done.stdout.strip())
    assert (left / "open.gguf").exists()
    mine = Vault(tmp_path, KEY)
    vault.sweep()
    assert not left.exists()
    assert mine.memory.exists()
    mine.close()


def test_a_system_without_memory_folder_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "SYSTEM", "darwin")
    with pytest.raises(StorageError, match="disk encryption instead"):
        Vault(tmp_path, KEY)
