"""A drafter with its adapter added in is there whole or not at all, and a full disk is noticed before it is written."""

from types import SimpleNamespace

import pytest

from omnidraft.errors import StorageError
from omnidraft.learning.adapters import versions


def test_what_a_killed_process_left_is_deleted_and_what_is_written_is_not(tmp_path):
    (tmp_path / f".big.gguf.x{versions._PART}").write_bytes(b"x")
    with versions._writing(tmp_path / "other.gguf") as fresh:
        with versions._writing(tmp_path / "out.gguf"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == [fresh.name, "out.gguf"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.gguf", "out.gguf"]


def test_a_full_disk_is_noticed_before_writing(tmp_path, monkeypatch):
    usage = SimpleNamespace(total=10**9, used=0, free=10**6)
    monkeypatch.setattr(versions.shutil, "disk_usage", lambda folder: usage)
    (drafter := tmp_path / "drafter.gguf").write_bytes(bytes(10**6))
    with pytest.raises(StorageError, match="free"):
        versions.write_merged(drafter, tmp_path / "none", tmp_path / "out.gguf")
