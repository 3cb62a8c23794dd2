"""Writes a model and its tokenizer as a Hugging Face folder, and as the GGUF file that the program makes of one."""

import json
import tempfile
from pathlib import Path

from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from omnidraft.backends.gguf.convert import convert_folder

from .specs import ModelSpec


def save_folder(folder: Path, spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM) -> None:
    """Write config.json, model.safetensors, tokenizer.json and tokenizer_config.json."""
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "bos_token": spec.bos, "eos_token": spec.eos, "add_bos_token": "bos_token" in spec.template,
        "chat_template": spec.template,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def export_gguf(path: Path, spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM, dtype: str = "F16") -> None:
    """Write `path`, whole or not at all; `dtype` of the matrices is "F32" or "F16"."""
    with tempfile.TemporaryDirectory() as folder:
        save_folder(Path(folder), spec, tokenizer, model)
        convert_folder(Path(folder), path, dtype, spec.name, spec.licence)
