"""The model list shows every file once, and says why a file cannot be used."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from omnidraft.app import models_list
from omnidraft.app.assistant import Assistant
from omnidraft.backends.discovery import find_models
from omnidraft.backends.gguf.file import read_info
from omnidraft.storage.paths import find_data_home


def test_the_bundled_models_are_found(models: Path):
    found = {info.name: info.kind for info in find_models([models])}
    assert {"tiny-drafter", "tiny-target-a", "tiny-target-a2", "tiny-target-b"} <= found.keys()
    assert found == {name: "projector" if name.startswith("mmproj") else "model" for name in found}


def test_subfolders_are_searched_and_names_sorted(write_gguf, tmp_path: Path):
    tensors = {"w": np.zeros((1, 32), np.float32)}
    write_gguf("a/beta-Q4_K_M.gguf", "llama", {"general.name": "smol 8k mix ep2"}, tensors)
    write_gguf("z/deep/Alpha.gguf", "llama", {}, tensors)
    (tmp_path / "notes.txt").write_text("no model")
    found = find_models([tmp_path])
    assert [(info.name, info.title) for info in found] == [("Alpha", ""), ("beta", "smol 8k mix ep2")]


def test_a_damaged_file_is_listed_with_its_reason(tmp_path: Path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    (info,) = find_models([tmp_path])
    assert (info.kind, info.name) == ("damaged", "broken")
    assert "cut short" in info.error


def test_overlapping_and_missing_folders(write_gguf, tmp_path: Path):
    write_gguf("sub/m.gguf", "llama", {}, {"w": np.zeros((1, 32), np.float32)})
    assert len(find_models([tmp_path, tmp_path / "sub", tmp_path / "missing"])) == 1


ODD_GGUF = {  # metadata of types it should not have
    "list": {"general.file_type": [1, 2]}, "nan": {"llama.attention.head_count": float("nan")},
    "infinite": {"llama.context_length": float("inf")}, "texts": {"llama.block_count": ["a", "b"]},
    "name": {"general.name": [1]}, "split": {"split.count": [3]},
}  # fmt: skip
ODD_FOLDERS = {
    "number": json.dumps({"architectures": 5}), "deep": "[" * 100_000 + "]" * 100_000,
    "nan": '{"hidden_size": NaN, "num_attention_heads": Infinity}',
    "layers": json.dumps({"architectures": ["XForCausalLM"], "layer_types": 7}), "list": "[]", "bytes": "\udcff",
}  # fmt: skip


def listed_in_time(folder: Path) -> dict[str, str]:
    """Names and kinds of what is found in `folder`; fails where the search hangs."""
    found: list = []
    search = threading.Thread(target=lambda: found.extend(find_models([folder])), daemon=True)
    search.start()
    search.join(60)
    assert not search.is_alive(), "the search hangs"
    assert all(info.error for info in found if info.kind == "damaged")
    return {str(info.path.relative_to(folder)): info.kind for info in found}


@pytest.mark.parametrize("odd", ODD_GGUF)
def test_odd_metadata_keeps_no_other_file_from_being_listed(write_gguf, tmp_path: Path, odd):
    for name, metadata in (("odd.gguf", ODD_GGUF[odd]), ("good.gguf", {})):
        write_gguf(name, "llama", metadata, {"w": np.zeros((1, 32), np.float32)})
    assert listed_in_time(tmp_path).keys() == {"odd.gguf", "good.gguf"}


@pytest.mark.parametrize("odd", ODD_FOLDERS)
def test_an_odd_folder_keeps_no_other_file_from_being_listed(write_gguf, tmp_path: Path, odd):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.json").write_text(ODD_FOLDERS[odd], errors="surrogateescape")
    (tmp_path / "odd" / "model.safetensors").write_bytes(b"\xff" * 40)
    write_gguf("good.gguf", "llama", {}, {"w": np.zeros((1, 32), np.float32)})
    assert listed_in_time(tmp_path) == {"odd": "damaged", "good.gguf": "model"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_what_is_no_file_is_listed_as_that_and_waits_for_nobody(write_gguf, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "pool.gguf")
    (tmp_path / "pool.gguf").symlink_to(tmp_path / "loop.gguf")
    (tmp_path / "around").symlink_to(tmp_path)
    write_gguf("good.gguf", "llama", {}, {"w": np.zeros((1, 32), np.float32)})
    found = listed_in_time(tmp_path)
    assert found == {"pipe.gguf": "damaged", "loop.gguf": "damaged", "pool.gguf": "damaged", "good.gguf": "model"}


def test_a_link_that_runs_in_a_circle_is_listed_with_its_reason(write_gguf, tmp_path: Path):
    write_gguf("good.gguf", "llama", {}, {"w": np.zeros((1, 32), np.float32)})
    (tmp_path / "round.gguf").symlink_to(tmp_path / "again.gguf")
    (tmp_path / "again.gguf").symlink_to(tmp_path / "round.gguf")
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nothing.gguf")
    (tmp_path / "folder").symlink_to(tmp_path / "folder")
    found = {info.path.name: info for info in find_models([tmp_path, tmp_path / "folder"])}
    assert found.keys() == {"good.gguf", "round.gguf", "again.gguf", "gone.gguf"}
    assert all(found[name].error for name in ("round.gguf", "again.gguf", "gone.gguf"))
    home = find_data_home(tmp_path / "home")
    for name in ("round.gguf", "again.gguf"):
        (home.models / name).symlink_to(home.models / ("again.gguf" if name == "round.gguf" else "round.gguf"))
    assistant = Assistant(home, ephemeral=True)
    assert "tiny-target-a-f16" in models_list.identifiers(models_list.targets(assistant))
    assert not any(models_list.is_private(assistant, info.path) for info in models_list.scan(assistant))
    assistant.close()


@pytest.mark.parametrize("name", ["big-00001-of-00003.gguf", "mine.gguf"])
def test_a_link_to_the_first_part_of_a_split_model_is_that_model(write_gguf, tmp_path: Path, name: str):
    keys, tensor = {"split.count": 3, "split.tensors.count": 3}, np.zeros((1, 32), np.float32)
    parts = [
        write_gguf(f"real/big-0000{n + 1}-of-00003.gguf", "llama", {**keys, "split.no": n}, {f"w{n}": tensor})
        for n in range(3)
    ]
    (tmp_path / "models").mkdir()
    link = tmp_path / "models" / name
    link.symlink_to(parts[0])
    (tmp_path / "models" / "second.gguf").symlink_to(parts[1])
    (info,) = find_models([tmp_path / "models"])
    assert info.path == parts[0]
    assert not info.error
    assert len(info.parts) == 3
    assert read_info(link).parts == info.parts
    assert len(find_models([tmp_path / "models", tmp_path / "real"])) == 1
