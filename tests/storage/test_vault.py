"""Who has which key, and that a file of an encrypted home is never opened or made without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from omnidraft.errors import StorageError
from omnidraft.processes import system
from omnidraft.storage import vault
from omnidraft.storage.database import connect
from omnidraft.storage.files import put_in, readable, write_atomically
from omnidraft.storage.vault import HEADER, Vault, held, take_keys, vault_of, with_keys

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


def test_parts_have_keys_of_their_own_under_every_name_of_their_file(root, opened):
    profile = root / "profiles" / "anna"
    same = {opened.key_for(profile / name) for name in ("settings.toml", "settings.toml.damaged-1")}
    assert same == {opened.key("settings")}
    assert opened.key_for(root / "profiles" / ".incoming-1" / "adapters" / "a" / "b") == opened.key("adapters")
    assert opened.key("adapters") != opened.key("chats")


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


def test_temporary_files_of_the_process_and_its_children_lie_in_memory(opened):
    assert Path(tempfile.gettempdir()) == opened.memory == Path(os.environ["TMPDIR"])
    assert opened.memory.stat().st_mode & 0o077 == 0
    opened.close()
    assert tempfile.gettempdir() != str(opened.memory)
    assert not opened.memory.exists()
    assert held(opened.root) is None


def test_a_child_gets_the_keys_it_needs_on_its_line_and_no_other(root, opened):
    line = with_keys('{"job": 1}\n', root / "profiles" / "anna" / "adapters", ("replay", "adapters"))
    assert json.loads(line)["job"] == 1
    chats, replay = opened.key("chats"), opened.key("replay")
    opened.close()
    take_keys(line)
    child = held(root)
    try:
        assert child.key("replay") == replay
        assert chats.hex() not in line
        assert KEY.hex() not in line
        with pytest.raises(StorageError, match="no key"):
            child.key("chats")
    finally:
        child.close()


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
