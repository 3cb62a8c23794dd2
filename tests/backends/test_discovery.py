"""The model list shows every file once, and says why a file cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidraft.backends.discovery import find_models


def test_the_bundled_models_are_found(models: Path):
    found = {info.name: info.kind for info in find_models([models])}
    assert {"tiny-drafter", "tiny-target-a", "tiny-target-a2", "tiny-target-b"} <= found.keys()
    assert set(found.values()) == {"model"}


def test_subfolders_are_searched_and_names_sorted(write_gguf, tmp_path: Path):
    tensors = {"w": np.zeros((1, 32), np.float32)}
    write_gguf("z/one.gguf", "llama", {"general.name": "beta"}, tensors)
    write_gguf("a/deep/two.gguf", "llama", {"general.name": "Alpha"}, tensors)
    (tmp_path / "notes.txt").write_text("no model")
    assert [info.name for info in find_models([tmp_path])] == ["Alpha", "beta"]


def test_a_damaged_file_is_listed_with_its_reason(tmp_path: Path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    (info,) = find_models([tmp_path])
    assert (info.kind, info.name) == ("damaged", "broken")
    assert "cut short" in info.error


def test_a_split_model_is_one_entry(write_gguf, tmp_path: Path):
    for number in range(2):
        keys = {"split.no": number, "split.count": 2}
        write_gguf(f"big-{number + 1:05d}-of-00002.gguf", "llama", keys, {f"w{number}": np.zeros((1, 32), np.float32)})
    (info,) = find_models([tmp_path])
    assert len(info.parts) == 2


def test_overlapping_and_missing_folders(write_gguf, tmp_path: Path):
    write_gguf("sub/m.gguf", "llama", {}, {"w": np.zeros((1, 32), np.float32)})
    assert len(find_models([tmp_path, tmp_path / "sub", tmp_path / "missing"])) == 1


def test_a_link_that_leads_nowhere_is_listed(tmp_path: Path):
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nothing.gguf")
    (info,) = find_models([tmp_path])
    assert info.kind == "damaged"
