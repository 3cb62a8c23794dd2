"""A model file is described fast and without its data; every unusable file is refused in one sentence."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.gguf.header import read_header
from omnidraft.errors import ModelError


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_info(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_a_bundled_target_is_described(models: Path):
    info = read_info(models / "tiny-target-a-f16.gguf")
    assert (info.name, info.architecture, info.quantization, info.kind) == ("tiny-target-a", "llama", "F16", "model")
    assert (info.vocabulary_family, info.vocabulary_size) == ("llama-bpe", 8192)
    assert info.parameters == sum(t.elements for t in read_header(info.path).tensors.values()) > 1_000_000
    assert info.width % info.heads == 0
    assert info.file_size == info.path.stat().st_size
    assert "<|start_header_id|>" in info.chat_template
    assert info.tied
    drafter = read_info(models / "tiny-drafter-f16.gguf")
    assert (drafter.tied, drafter.vocabulary_family) == (False, "spm")


def test_a_changed_file_is_read_again(write_gguf):
    path = write_gguf("m.gguf", "llama", {"general.name": "before"})
    assert read_info(path).title == "before"
    write_gguf("m.gguf", "llama", {"general.name": "after it"})
    assert read_info(path).title == "after it"


@pytest.mark.parametrize(("content", "told"), [
    (b"", "empty"), (b"\x00" * 100, "not a GGUF file"), (b"#!/bin/sh\nexit 1\n", "not a GGUF file"),
    (b"GGU", "not a GGUF file"), (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "architecture"),
    (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version"), (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version"),
    (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
])  # fmt: skip
def test_what_is_no_gguf_of_a_version_we_read_is_refused(tmp_path: Path, content: bytes, told: str):
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    assert told in refusal(path)


def test_what_is_no_file_is_refused(tmp_path: Path):
    assert "does not exist" in refusal(tmp_path / "nowhere.gguf")
    assert "folder" in refusal(tmp_path)
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        path = tmp_path / "secret.gguf"
        path.write_bytes(b"GGUF")
        path.chmod(0)
        assert "cannot be read" in refusal(path)


def test_every_cut_of_a_model_is_noticed(models: Path, tmp_path: Path):
    whole = (models / "tiny-drafter-f16.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for length in (5, 20, 100, 3000, 60_000, 70_400, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "cut short" in refusal(path)


def test_an_unknown_number_format(models: Path, tmp_path: Path):
    data = bytearray((models / "tiny-drafter-f16.gguf").read_bytes())
    position = data.index(b"output_norm.weight") + len(b"output_norm.weight") + 4 + 8
    assert struct.unpack_from("<I", data, position)[0] == 0
    struct.pack_into("<I", data, position, 4)  # a format llama.cpp removed
    path = tmp_path / "old.gguf"
    path.write_bytes(data)
    assert "number format" in refusal(path)


@pytest.mark.parametrize(
    ("architecture", "metadata", "kind"),
    [
        ("llama", {"general.type": "adapter"}, "adapter"),
        ("clip", {"general.type": "mmproj"}, "projector"),
        ("bert", {"bert.attention.causal": False}, "encoder"),
        ("qwen3", {"qwen3.pooling_type": 3}, "encoder"),
        ("qwen3", {"qwen3.pooling_type": 0xFFFFFFFF}, "model"),
        ("qwen3", {"qwen3.pooling_type": 0}, "model"),
        ("t5encoder", {}, "encoder"),
        ("llama", {}, "model"),
    ],
)
def test_files_that_are_no_chat_models_are_told_apart(write_gguf, architecture: str, metadata: dict, kind: str):
    path = write_gguf("k.gguf", architecture, metadata, {"w": np.zeros((2, 32), np.float32)})
    assert read_info(path).kind == kind


def split(write_gguf, number: int, count: int) -> Path:
    keys = {"split.no": number, "split.count": count, "split.tensors.count": count}
    name = f"big-{number + 1:05d}-of-{count:05d}.gguf"
    return write_gguf(name, "llama", keys, {f"w{number}": np.zeros((3, 32), np.float32)})


def test_a_split_model_counts_all_its_parts(write_gguf):
    parts = [split(write_gguf, number, 3) for number in range(3)]
    info = read_info(parts[0])
    assert info.parts == tuple(parts)
    assert info.parameters == 3 * 96
    assert info.file_size == sum(part.stat().st_size for part in parts)


def test_a_later_part_names_the_first_and_a_missing_one_is_named(write_gguf):
    assert "big-00002-of-00002.gguf" in refusal(split(write_gguf, 0, 2))
    assert "big-00001-of-00002.gguf" in refusal(split(write_gguf, 1, 2))
