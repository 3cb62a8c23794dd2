"""Copies of a GGUF file with other metadata: what a damaged or foreign header looks like."""

from pathlib import Path
from typing import Any

import gguf

NUMBERS = gguf.GGUFValueType


def altered(
    source: Path, target: Path, changes: dict[str, tuple[Any, NUMBERS]], tokens: dict[int, str] | None = None
) -> Path:
    """`source` with these keys set (value and type; a list is an array of that type) and these tokens respelled."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in changes or key == "general.architecture":
            continue
        value = field.contents()
        if key == "tokenizer.ggml.tokens":
            value = [(tokens or {}).get(id, token) for id, token in enumerate(value)]
        writer.add_key_value(key, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for key, (value, kind) in changes.items():
        array = isinstance(value, list)
        writer.add_key_value(key, value, NUMBERS.ARRAY if array else kind, kind if array else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
