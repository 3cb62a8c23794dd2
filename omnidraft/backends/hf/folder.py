"""What a Hugging Face folder says about the model inside: `read_folder`, from its JSON files and tensor headers alone.

Finds the faults that can be told without the libraries that would run it. Imports neither torch nor transformers.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.estimate import Estimate
from omnidraft.errors import ModelError, NoRoom
from omnidraft.format import size
from omnidraft.storage.files import read_json, real
from omnidraft.vocab.hf_vocab import read_template

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_GENERATING = ("ForCausalLM", "LMHeadModel")
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
_WITH_STATE = {"linear_attention", "conv"}  # layers whose state can be copied and put back


def is_model_folder(path: Path) -> bool:
    """Whether `path` holds a configuration and weights as Hugging Face's libraries lay them out."""
    return (path / "config.json").is_file() and any((path / name).is_file() for name in (_SINGLE, _INDEX))


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
    tensors = [tensor for part in parts for tensor in _tensors(part)]
    types: Counter[str] = Counter()
    for kind, shape in tensors:
        types[kind] += prod(shape)
    return ModelInfo(
        path=path,
        name=real(path).name,
        architecture=str(config.get("model_type", "")),
        parameters=types.total(),
        quantization=types.most_common(1)[0][0] if types else "",
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
    """The files that hold the weights; ModelError if there are none or some are missing."""
    if (path / _SINGLE).is_file():
        return [path / _SINGLE]
    if (path / _INDEX).is_file():
        return _shards(path, path / _INDEX)
    raise ModelError(f"{path} holds no weights ({_SINGLE}); download it again.")


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


def _tensors(file: Path) -> list[tuple[str, list[int]]]:
    """(type, shape) of every tensor."""
    try:
        with safe_open(file, framework="numpy") as opened:
            parts = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118 - it is no mapping
            return [(part.get_dtype(), part.get_shape()) for part in parts]
    except SafetensorError:
        raise ModelError(f"{file} is cut short or damaged inside its header; download or copy it again.") from None


def _tokenizer_family(path: Path) -> str:
    try:
        with (path / "tokenizer.json").open(encoding="utf-8") as file:
            return "bpe" if '"ByteLevel"' in file.read() else "spm"
    except (OSError, ValueError):
        return ""


def _number(config: dict[str, Any], *keys: str) -> int:
    return next((int(config[key]) for key in keys if isinstance(config.get(key), (int, float))), 0)


# How much memory a Hugging Face folder takes as a target, and whether that is there: `folder_estimate`, `check_room`.
# Reckons from the folder's own numbers; neither the weights nor torch are touched.


COMPUTED_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
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
    again = info.vocabulary_size * info.width if info.tied and device == "cpu" else 0  # the output, in another order
    return Estimate(each * (info.parameters + again), cache, states + scores + shared + logits + _RUNTIME)


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
