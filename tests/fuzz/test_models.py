"""GGUF files, adapters, tokenizers and model folders from a stranger, as far as this program reads them itself."""

import random
import struct
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from omnidraft.backends.gguf.file import check_adapter, read_info, usable_info
from omnidraft.backends.gguf.header import check_settings, read_header
from omnidraft.backends.hf.folder import read_folder
from omnidraft.backends.llama.estimate import header_estimate
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.fuzz.cases import as_json, damaged, fuzz, refused_at_most, several

SEEDS = st.integers(0, 2**48).map(random.Random)
KINDS = {4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(data)) + data


def typed(value: Any, by: random.Random, number: int = 0) -> bytes:
    """A value with its type, sometimes one that does not fit or claims more than there is."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        kind = number or by.choice([4, 5, 10, 11])
        return struct.pack("<I", kind) + struct.pack(KINDS[kind], value % 2**31)
    if isinstance(value, float):
        return struct.pack("<Id", 12, value)
    if isinstance(value, list):
        number = by.choice([4, 5, 10, 11])
        inner = [typed(one, by, number) for one in value]
        kind = inner[0][:4] if inner else struct.pack("<I", by.randrange(14))
        count = len(inner) if by.random() < 0.9 else by.choice([0, 2**40, 2**64 - 1])
        return struct.pack("<I", 9) + kind + struct.pack("<Q", count) + b"".join(one[4:] for one in inner)
    return struct.pack("<I", 8) + text(b"\xff\xfe\xc0" if value == "\ud800" else str(value))


def gguf(metadata: Any, by: random.Random) -> bytes:
    """A file with these settings and two small tensors."""
    metadata = metadata if isinstance(metadata, dict) else {}
    head = b"".join(text(str(key)) + typed(value, by) for key, value in metadata.items())
    shapes = {"token_embd.weight": (8, 6), "blk.0.attn_q.weight": (8, 8)}
    tensors, at = b"", 0
    for name, shape in shapes.items():
        tensors += text(name) + struct.pack("<IQQIQ", 2, *shape, 0, at)
        at += 256
    made = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata)) + head + tensors
    return made + bytes(-len(made) % 32) + bytes(at)


SETTINGS = {
    "general.architecture": "llama", "general.name": "It", "general.file_type": 1, "llama.context_length": 512,
    "llama.embedding_length": 8, "llama.block_count": 1, "llama.feed_forward_length": 16, "llama.expert_count": 0,
    "llama.attention.head_count": 2, "llama.attention.head_count_kv": [2], "llama.rope.scaling.type": "none",
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": 6, "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "<0x0A>", "a", "b"], "tokenizer.ggml.scores": [0.0] * 6,
    "tokenizer.ggml.token_type": [2, 3, 3, 6, 1, 1], "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": "{{ messages }}", "split.count": 0,
}  # fmt: skip


def look(path: Path) -> None:
    """All that is read of a file before llama.cpp sees it."""
    with refused_at_most():
        info = read_info(path)
        header_estimate(info, ModelSettings(), 512)
    with refused_at_most():
        usable_info(path)
    with refused_at_most():
        header = read_header(path)
        check_settings(header, str(header.metadata.get("general.architecture", "")))


@fuzz(60)
@given(SEEDS)
def test_settings_of_any_kind(tmp_path_factory, by):
    path = tmp_path_factory.getbasetemp() / "odd.gguf"
    path.write_bytes(gguf(several(SETTINGS, by), by))
    look(path)


@fuzz(60)
@given(SEEDS)
def test_damaged_files(tmp_path_factory, by):
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(damaged(gguf(SETTINGS, random.Random(1)), by))
    look(path)


@fuzz(40)
@given(SEEDS)
def test_damaged_adapters(tmp_path_factory, models, by):
    drafter = read_info(models / "tiny-drafter-f16.gguf")
    settings = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora"}
    made = gguf(several(settings | {"adapter.lora.alpha": 1.0}, by), by)
    path = tmp_path_factory.getbasetemp() / "adapter.gguf"
    path.write_bytes(damaged(made, by) if by.random() < 0.5 else made)
    with refused_at_most():
        check_adapter(path, drafter)


LETTERS = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
    "added_tokens": [{"id": 257, "content": "<s>", "special": True, "single_word": False, "lstrip": False,
                      "rstrip": False, "normalized": False}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
              "vocab": LETTERS | {"ab": 256}, "merges": [["a", "b"]]},
}  # fmt: skip


@fuzz(60)
@given(SEEDS)
def test_tokenizers_of_any_kind(tmp_path_factory, by):
    folder = tmp_path_factory.getbasetemp() / "tokenizer"
    folder.mkdir(exist_ok=True)
    data = as_json(several(TOKENIZER, by))
    (folder / "tokenizer.json").write_bytes(damaged(data, by) if by.random() < 0.2 else data)
    (folder / "tokenizer_config.json").write_bytes(as_json(several({"chat_template": "x", "eos_token": "<s>"}, by)))
    with refused_at_most():
        vocabulary = read_tokenizer_json(folder / "tokenizer.json")
        ids = vocabulary.encode("ab a\x00é😀", at_start=True)
        assert all(0 <= one < vocabulary.size for one in ids)


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1,
    "vocab_size": 5, "num_attention_heads": 2, "torch_dtype": "float32", "max_position_embeddings": 64,
    "rope_scaling": {"type": "linear", "factor": 2.0}, "quantization_config": None,
}  # fmt: skip


@fuzz(60)
@given(SEEDS)
def test_model_folders_of_any_kind(tmp_path_factory, by):
    folder = tmp_path_factory.getbasetemp() / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(as_json(several(CONFIG, by)))
    (folder / "tokenizer.json").write_bytes(as_json(several(TOKENIZER, by)))
    header = as_json(several({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, by))
    size = len(header) if by.random() < 0.8 else by.choice([0, 2**40, 2**63])
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + header + bytes(16))
    with refused_at_most():
        header_estimate(read_folder(folder), ModelSettings(), 512)


def test_what_nobody_damaged_is_accepted(tmp_path):
    """Or the cases above would all end at the first look."""
    (tmp_path / "tokenizer.json").write_bytes(as_json(TOKENIZER))
    assert read_tokenizer_json(tmp_path / "tokenizer.json").encode("ab") == [256]
    (tmp_path / "x.gguf").write_bytes(gguf(SETTINGS, random.Random(1)))
    assert read_info(tmp_path / "x.gguf").architecture == "llama"
