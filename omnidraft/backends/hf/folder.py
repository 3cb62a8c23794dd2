"""What a Hugging Face folder says about the model inside: `read_folder`, from its JSON files and tensor headers alone.

Finds the faults that can be told without the libraries that would run it. Imports neither torch nor transformers.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.estimate import Estimate
from omnidraft.errors import ModelError, NoRoom, first_line
from omnidraft.format import size
from omnidraft.storage.files import read_json

SINGLE = ("model.safetensors", "pytorch_model.bin")
INDEXED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_DECLARED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_GENERATING = ("ForCausalLM", "LMHeadModel")
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
_WITH_STATE = {"linear_attention", "conv"}  # layers whose state can be copied and put back
_HEADER_LIMIT = 100 << 20


def is_model_folder(path: Path) -> bool:
    """Whether `path` holds a configuration and weights as Hugging Face's libraries lay them out."""
    return (path / "config.json").is_file() and any((path / name).is_file() for name in (*SINGLE, *INDEXED))


def read_folder(path: str | Path) -> ModelInfo:
    """What the folder at `path` holds. ModelError in one sentence if it cannot be a target."""
    path = Path(path)
    try:
        return _read(path)
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise ModelError(f"{path} holds settings that make no sense; download or copy it again.") from None


def _read(path: Path) -> ModelInfo:
    config = read_config(path)
    _check_kind(path, config)
    parts = weight_files(path)
    inner = inner_config(config)
    heads = _number(inner, "num_attention_heads", "n_head")
    tensors = tensor_headers(parts)
    declared = str(config.get("dtype") or config.get("torch_dtype"))
    types: Counter[str] = Counter()
    for _, kind, shape in tensors:
        types[kind] += prod(shape)
    return ModelInfo(
        path=path,
        name=path.resolve().name,
        architecture=str(config.get("model_type", "")),
        parameters=sum(prod(shape) for _, _, shape in tensors),
        quantization=types.most_common(1)[0][0] if types else _DECLARED.get(declared, ""),
        n_ctx_train=_number(inner, "max_position_embeddings", "n_positions", "seq_length"),
        width=_number(inner, "hidden_size", "n_embd", "d_model"),
        layers=_number(inner, "num_hidden_layers", "n_layer"),
        heads=heads,
        kv_heads=_number(inner, "num_key_value_heads") or heads,
        vocabulary_family=_tokenizer_family(path),
        vocabulary_size=_number(inner, "vocab_size"),
        file_size=sum(part.stat().st_size for part in parts),
        chat_template=read_template(path),
        tool_template=read_template(path, "tool_use"),
        tied=bool(config.get("tie_word_embeddings", inner.get("tie_word_embeddings", True))),
        parts=tuple(parts),
    )


def read_config(path: Path) -> dict[str, Any]:
    """config.json of a folder; ModelError if there is none or it is no JSON object."""
    file = path / "config.json"
    if not path.is_dir():
        raise ModelError(f"{path} does not exist; check the path to the model folder.")
    if not file.is_file():
        raise ModelError(f"{path} holds no config.json, so it is no Hugging Face model folder; name a file inside it.")
    try:
        config = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ModelError(f"{file} cannot be read; download or copy it again.")
    return config


def inner_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part that describes the text model, where others stand beside it."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def state_layers(path: Path) -> list[bool]:
    """For each layer whether it carries a state on instead of keys and values; [] where none does."""
    kinds = inner_config(read_config(path)).get("layer_types") or ()
    return [kind in _WITH_STATE for kind in kinds] if _WITH_STATE.intersection(kinds) else []


def _check_kind(path: Path, config: dict[str, Any]) -> None:
    names = [name for name in config.get("architectures") or [] if isinstance(name, str)]
    generating = (*_GENERATING, *(["ForConditionalGeneration"] if isinstance(config.get("text_config"), dict) else ()))
    if config.get("is_encoder_decoder") or (names and not any(name.endswith(generating) for name in names)):
        held = ", ".join(names) or "an encoder-decoder model"
        raise ModelError(f"{path} holds {held[:100]}, which is no plain text model.")
    quantized = config.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method", "unknown") if isinstance(quantized, dict) else "unknown"
        raise ModelError(
            f"{path} is quantized with {str(method)[:100]}, which needs packages that do not belong to this program; "
            "use the unquantized folder or a GGUF of this model."
        )
    kinds = set(inner_config(config).get("layer_types") or ()) - _ATTENTION - _WITH_STATE
    if kinds:
        named = ", ".join(sorted(map(str, kinds)))[:100]
        raise ModelError(
            f"{path} has layers that carry a state ({named}) and cannot take tokens back "
            "in a Hugging Face folder; use a GGUF of this model."
        )


def weight_files(path: Path) -> list[Path]:
    """The files that hold the weights, safetensors preferred; ModelError if there are none or some are missing."""
    for single, index in zip(SINGLE, INDEXED, strict=True):
        if (path / single).is_file():
            return [path / single]
        if (path / index).is_file():
            return _shards(path, path / index)
    raise ModelError(f"{path} holds no weights (model.safetensors or pytorch_model.bin); download it again.")


def _shards(path: Path, index: Path) -> list[Path]:
    try:
        names = sorted(set(read_json(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{index} cannot be read; download or copy it again.") from None
    if any(Path(name).name != name for name in names):
        raise ModelError(f"{index} names files outside its folder, so it is not trusted.")
    missing = [name for name in names if not (path / name).is_file()]
    if missing:
        raise ModelError(f"{path} lacks {missing[0]} ({len(missing)} of {len(names)} parts); download it again.")
    return [path / name for name in names]


def tensor_headers(parts: list[Path]) -> list[tuple[str, str, list[int]]]:
    """(name, type, shape) of every tensor in safetensors files; [] for pytorch_model.bin, which does not say."""
    return [entry for part in parts if part.suffix == ".safetensors" for entry in _safetensors_header(part)]


def _safetensors_header(file: Path) -> list[tuple[str, str, list[int]]]:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = struct.unpack("<Q", stream.read(8))[0]
            if length > min(size, _HEADER_LIMIT):
                raise ValueError
            header = read_json(stream.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        if 8 + length + end > size:
            raise ModelError(f"{file} is cut short: it has {size:,} bytes of {8 + length + end:,}; download it again.")
        return [(name, str(entry["dtype"]), [int(n) for n in entry["shape"]]) for name, entry in tensors.items()]
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}).") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise ModelError(f"{file} is damaged inside its header; download or copy it again.") from None


def read_template(path: Path, variant: str = "default") -> str | None:
    """The folder's chat template, or another of that name: a file of its own, else in tokenizer_config.json."""
    own = "chat_template.jinja" if variant == "default" else f"additional_chat_templates/{variant}.jinja"
    try:
        return (path / own).read_text(encoding="utf-8")
    except (OSError, ValueError):
        pass
    try:
        template = read_json((path / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    if not isinstance(template, list):
        template = [{"name": "default", "template": template}]
    named = {str(entry.get("name")): entry.get("template") for entry in template if isinstance(entry, dict)}
    found = named.get(variant)
    return found if isinstance(found, str) and found else None


def _tokenizer_family(path: Path) -> str:
    try:
        with (path / "tokenizer.json").open(encoding="utf-8") as file:
            return "bpe" if '"ByteLevel"' in file.read() else "spm"
    except (OSError, ValueError):
        return "spm" if (path / "tokenizer.model").is_file() else ""


def _number(config: dict[str, Any], *keys: str) -> int:
    return next((int(config[key]) for key in keys if isinstance(config.get(key), (int, float))), 0)


# How much memory a Hugging Face folder takes as a target, and whether that is there: `folder_estimate`, `check_room`.
# Reckons from the folder's own numbers; neither the weights nor torch are touched.


COMPUTED_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_STORED = {"F32": 4, "BF16": 2, "F16": 2}
_RUNTIME = 8_000_000  # what torch sets up for the first passes
_ROWS = 64  # of logits in one pass, at most


def folder_estimate(info: ModelInfo, device: str, dtype: str, n_ctx: int) -> Estimate:
    """Bytes that `info` takes with a full context of `n_ctx` tokens."""
    each = COMPUTED_BYTES[dtype]
    config = inner_config(read_config(info.path))
    head = _number(config, "head_dim") or (info.width // info.heads if info.heads else 0)
    cache = 2 * n_ctx * info.layers * info.kv_heads * head * each
    batch = min(N_BATCH, n_ctx)
    inner = _number(config, "intermediate_size", "n_inner") or 4 * info.width
    states = batch * each * (8 * info.width + 3 * inner)
    scores = batch * n_ctx * (4 + each)  # with the mask that hides what comes later
    shared = 2 * n_ctx * info.heads * head * each if info.kv_heads < info.heads else 0  # spread over all heads
    logits = min(batch, _ROWS) * info.vocabulary_size * (4 if each == 4 else 4 + each)
    return Estimate(_weights(info, device, dtype), cache, states + scores + shared + logits + _RUNTIME)


def check_room(info: ModelInfo, device: str, dtype: str, n_ctx: int, free: int | None) -> None:
    """NoRoom with the numbers and a way out if `info` does not fit into `free` bytes; None: nobody knows."""
    needed = folder_estimate(info, device, dtype, n_ctx)
    if free is None or needed.total <= free:
        return
    where = "memory" if device == "cpu" else "the GPU's memory"
    raise NoRoom(
        f"{info.name} needs {needed} in {dtype} with a context of {n_ctx} tokens, but {size(free)} of {where} are "
        f"free; {_suggestion(info, device, dtype, n_ctx, free)}."
    )


def _suggestion(info: ModelInfo, device: str, dtype: str, n_ctx: int, free: int) -> str:
    """The longest context that fits, else a smaller number format, else another file."""
    for shorter in (n_ctx // 2, n_ctx // 4, n_ctx // 8):
        if shorter >= 512 and folder_estimate(info, device, dtype, shorter).total <= free:
            return f"set the context length to {shorter} or less"
    if dtype == "float32" and folder_estimate(info, device, "bfloat16", n_ctx).total <= free:
        return "set dtype to bfloat16"
    return "use a quantized GGUF of this model, a smaller model or a shorter context"


def _weights(info: ModelInfo, device: str, dtype: str) -> int:
    each = COMPUTED_BYTES[dtype]
    output = info.vocabulary_size * info.width
    if not info.parameters:  # pytorch_model.bin does not say; its file is little more than the weights
        numbers = info.file_size // _STORED.get(info.quantization, 4)
        return each * numbers
    return each * info.parameters + (output * each if info.tied and device == "cpu" else 0)


# The weights of a folder as float32 arrays, one tensor at a time. safetensors files are mapped, not loaded, and need no
# torch; pytorch_model.bin is read by torch with `weights_only`, so that no code in it can run.


_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Weights:
    """Names of the tensors, `read`, and `elements`: how many numbers they are together."""

    def __init__(self, parts: list[Path]) -> None:
        self._readers: dict[str, Callable[[], np.ndarray]] = {}
        self.elements = 0
        for part in parts:
            opened, count = _open_safetensors(part) if part.suffix == ".safetensors" else _open_torch(part)
            self._readers |= opened
            self.elements += count

    @property
    def names(self) -> set[str]:
        return set(self._readers)

    def read(self, name: str) -> np.ndarray:
        """The tensor as a float32 array; ModelError if there is none of this name."""
        if name not in self._readers:
            raise ModelError(f"The weights lack {name}; download them again.")
        return self._readers[name]()


def _open_safetensors(file: Path) -> tuple[dict[str, Callable[[], np.ndarray]], int]:
    kinds = {name: (kind, shape) for name, kind, shape in tensor_headers([file])}
    with file.open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    length = struct.unpack("<Q", data[:8])[0]
    header = read_json(data[8 : 8 + length])

    def reader(name: str) -> Callable[[], np.ndarray]:
        kind, shape = kinds[name]
        start, end = header[name]["data_offsets"]

        def read() -> np.ndarray:
            if kind not in _DTYPES:
                raise ModelError(f"{file} stores {name} as {kind}, which cannot be converted.")
            array = np.frombuffer(data, np.uint8, end - start, 8 + length + start).view(_DTYPES[kind]).reshape(shape)
            if kind == "BF16":  # the upper half of a float32
                return (array.astype(np.uint32) << 16).view(np.float32)
            return array.astype(np.float32)

        return read

    return {name: reader(name) for name in kinds}, sum(prod(shape) for _, shape in kinds.values())


def _open_torch(file: Path) -> tuple[dict[str, Callable[[], np.ndarray]], int]:
    import torch

    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    except Exception as error:  # torch raises pickle, zip and runtime errors of many kinds
        raise ModelError(f"{file} could not be read as plain weights: {first_line(error)}.") from None
    return {name: _reader(value) for name, value in tensors.items()}, sum(value.numel() for value in tensors.values())


def _reader(tensor: Any) -> Callable[[], np.ndarray]:
    return lambda: tensor.float().numpy()
