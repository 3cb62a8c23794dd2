"""The bundled drafter: its pieces spell whatever there is, torch and llama.cpp read it alike, and it can learn."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from transformers import LlamaForCausalLM

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.llama_file import llama_file

TALK = "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\nThe sky is blue because of how light"


@pytest.fixture(scope="module")
def drafter(models: Path) -> Path:
    return models / "smol-drafter-q5_0.gguf"


def test_it_spells_every_byte(drafter):
    vocabulary = read_gguf_vocabulary(drafter)
    for data in (bytes(range(256)), bytes(range(255, -1, -1)), b"\xff\xfe\x00\xc3", "naïve 中文 😀".encode()[:-1]):
        assert vocabulary.decode(vocabulary.encode_bytes(data)) == data


def test_it_spells_texts_of_many_kinds(drafter, shared):
    vocabulary = read_gguf_vocabulary(drafter)
    texts = ["Zażółć gęślą jaźń. Съешь же ещё этих булок. 我能吞下玻璃。 أنا قادر 🙂\u2028\r\n\tx  "]
    for path in sorted(shared.glob("data/*/*.jsonl")):
        with path.open(encoding="utf-8") as file:
            texts += [
                json.dumps(json.loads(line), ensure_ascii=False) for line, _ in zip(file, range(40), strict=False)
            ]
    for text in texts:
        assert vocabulary.decode(vocabulary.encode(text)) == text.encode()


def test_its_ends_and_its_way_of_cutting_are_those_of_the_model_it_was_cut_from(drafter):
    metadata = {name: field.contents() for name, field in GGUFReader(drafter).fields.items()}
    tokens = metadata["tokenizer.ggml.tokens"]
    assert metadata["general.architecture"] == "llama"
    assert metadata["tokenizer.ggml.pre"] == "smollm"
    assert tokens[metadata["tokenizer.ggml.bos_token_id"]] == "<|im_start|>"
    assert tokens[metadata["tokenizer.ggml.eos_token_id"]] == "<|im_end|>"
    assert list(metadata["tokenizer.ggml.token_type"][:18]) == [3] * 17 + [1]


def test_llama_cpp_and_torch_compute_the_same(drafter):
    """As the app runs it, but for rounding what is multiplied: at most one likeliest piece of twenty may be another."""
    with llama_file(drafter) as file:
        ids = file.tokenize(TALK.encode(), add_bos=False, special=True)
    model = LlamaForCausalLM.from_pretrained(drafter.parent, gguf_file=drafter.name, dtype=torch.float32)
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0].numpy()
    with LlamaDrafter.open(drafter, ModelSettings(n_ctx=512, n_gpu_layers=0)) as opened:
        ours = opened.extend(ids, len(ids)).copy()
    assert np.abs(ours - theirs).mean() < 0.1
    assert (ours.argmax(1) == theirs.argmax(1)).mean() >= 0.95


def test_its_layers_can_be_adapted(drafter):
    trained = TorchDrafter(drafter, rank=4)
    assert len(trained.adapted) == 5 * 7
    ids = torch.arange(20, 60)[None]
    before = trained.hidden(ids)
    before.square().mean().backward()
    torch.optim.SGD(trained.parameters(), 1.0).step()
    assert not torch.equal(trained.hidden(ids), before)
