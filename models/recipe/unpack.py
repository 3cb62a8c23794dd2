"""Reads a bundled GGUF back into a Hugging Face folder, so that its training can go on with `--resume`.

    python -m models.recipe.unpack NAME FILE.gguf FOLDER

The counterpart of `export` for files with byte-level vocabularies in F16 or F32. Knows nothing of training.
"""

import argparse
from pathlib import Path

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import LlamaForCausalLM

from .export import save_folder
from .specs import SPECS, ModelSpec
from .tokenizers import split_as


def read_tokenizer(spec: ModelSpec, path: Path) -> Tokenizer:
    """The byte-level vocabulary of a file."""
    fields = GGUFReader(path).fields
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: number for number, token in enumerate(fields["tokenizer.ggml.tokens"].contents())}
    tokenizer = split_as(spec.vocabulary, Tokenizer(BPE(vocabulary, merges)))
    tokenizer.add_special_tokens(list(spec.controls))
    return tokenizer


def read_model(path: Path) -> LlamaForCausalLM:
    """The weights of a file, in float32."""
    model = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    del model.config.quantization_config  # with it what comes from a GGUF refuses to be saved
    model.hf_quantizer, model.is_quantized = None, False
    return model


def unpack(spec: ModelSpec, path: Path, folder: Path) -> None:
    """Write what `export.save_folder` writes."""
    save_folder(folder, spec, read_tokenizer(spec, path), read_model(path))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.unpack", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(name for name, spec in SPECS.items() if spec.vocabulary != "spm"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    unpack(SPECS[args.name], args.file, args.folder)


if __name__ == "__main__":
    main()
