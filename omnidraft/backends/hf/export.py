"""Writes a Llama-like GGUF as a Hugging Face folder in float32: `export_folder`.

For measuring only: the same weights in both forms, so that what differs between two runs is the program. Nothing comes
from the network.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.hf.load import first_line, import_torch
from omnidraft.errors import ModelError, StorageError
from omnidraft.storage.files import reason
from omnidraft.storage.json_text import read_json


def export_folder(source: Path, out: Path) -> Path:
    """Write the model, its tokenizer and its chat template to the folder `out`, which appears only when complete."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise StorageError(f"{out.parent} cannot be written: {reason(error)}.") from error
    try:
        _write(source, temporary)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return out


def _write(source: Path, out: Path) -> None:
    torch = import_torch()
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    known = {"gguf_file": source.name, "local_files_only": True}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(str(source.parent), dtype=torch.float32, **known)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(source.parent), **known)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"{source.name} cannot be read by transformers: {first_line(error)}.") from error
    model.config.__dict__.pop("quantization_config", None)  # "quantized with gguf" would refuse to be saved
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    _drop_strangers(out / "tokenizer.json", model.config.vocab_size)
    if template := read_info(source).chat_template:
        (out / "chat_template.jinja").write_text(template, encoding="utf-8")


def _drop_strangers(file: Path, rows: int) -> None:
    """Tokens that transformers adds behind the model's own have no logits: they would make another vocabulary."""
    content = read_json(file.read_text(encoding="utf-8"))
    content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < rows]
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
