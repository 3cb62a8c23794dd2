"""Reads a bundled GGUF back into a Hugging Face folder, so that its training can go on with `--resume`.

    python -m models.recipe.unpack NAME FILE.gguf FOLDER

The counterpart of `export` for files with byte-level vocabularies in F16 or F32. Knows nothing of training.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import LlamaForCausalLM

from .export import gguf_name
from .specs import SPECS, ModelSpec
from .tokenizers import split_as
from .train import new_model


def read_tokenizer(spec: ModelSpec, file: GGUFReader) -> Tokenizer:
    """The byte-level vocabulary of a file."""
    tokens = file.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in file.fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = split_as(spec.vocabulary, Tokenizer(BPE(vocabulary, merges)))
    tokenizer.add_special_tokens(list(spec.controls))
    return tokenizer


def read_model(spec: ModelSpec, tokenizer: Tokenizer, file: GGUFReader) -> LlamaForCausalLM:
    """The weights of a file, in float32 and in torch's order of rotary rows."""
    model = new_model(spec, tokenizer)
    stored = {tensor.name: torch.from_numpy(tensor.data.astype(np.float32)) for tensor in file.tensors}

    def weight(name: str) -> torch.Tensor:
        stem = name.removesuffix(".weight")
        if stem == "lm_head" and spec.tied:
            stem = "model.embed_tokens"
        found = stored[gguf_name(stem)]
        return split_rotary(found, spec.heads) if stem.endswith(("q_proj", "k_proj")) else found

    model.load_state_dict({name: weight(name) for name in model.state_dict()})
    return model


def split_rotary(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undoes `export.interleave_rotary`."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def unpack(spec: ModelSpec, path: Path, folder: Path) -> None:
    """Write config.json, model.safetensors and tokenizer.json."""
    file = GGUFReader(path)
    tokenizer = read_tokenizer(spec, file)
    read_model(spec, tokenizer, file).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.unpack", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(name for name, spec in SPECS.items() if spec.vocabulary != "spm"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    unpack(SPECS[args.name], args.file, args.folder)


if __name__ == "__main__":
    main()
