"""What a GGUF file says about the model inside: `read_info`, without reading tensor data.

Every fault that would make llama.cpp refuse the file, or abort the process, is found here first and told in one
sentence. It knows the names of GGUF's metadata keys; it loads no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import llama_cpp

from omnidraft.backends.gguf.header import (
    FLOAT32,
    ArrayShape,
    GgufHeader,
    Tensor,
    check_settings,
    read_header,
)
from omnidraft.backends.llama.runtime import supports_architecture, type_layout, type_names
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import real

Kind = Literal["model", "vocabulary", "encoder", "adapter", "projector", "damaged"]

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
_FORMAT = re.compile(r"[-._](?:(?:UD-)?I?Q\d\w*|B?F(?:16|32)|MXFP4)$", re.IGNORECASE)
_FTYPES = {
    value: re.sub(r"LLAMA_FTYPE_(MOSTLY|ALL)_", "", name)
    for name, value in vars(llama_cpp).items()
    if name.startswith(("LLAMA_FTYPE_MOSTLY_", "LLAMA_FTYPE_ALL_"))
}
_MOST_PARTS = 9999
_UNPOOLED = (0, -1, 0xFFFFFFFF)  # none, and not specified, with a sign or without
_UNUSABLE = {
    "vocabulary": "holds a vocabulary without weights",
    "encoder": "is an encoder, which cannot generate text",
    "adapter": "is a LoRA adapter, not a model",
    "projector": "is the image part of a model, not a language model",
}
_FAMILIES = {"llama": "spm", "bert": "wpm", "t5": "ugm"}


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model file. Counts are 0 and texts "" where the file does not say.

    kind: "model" can be a target or drafter; "vocabulary" has no weights; "encoder", "adapter" and "projector" cannot
    generate text on their own; "damaged" carries the sentence in `error`. `chat_template` is None if the file has
    none, `tool_template` if it has no other for conversations with tools. `parts` are all files of a split model, in
    order. `file_size` in bytes, over all parts. `name` is the file's, `title` what its metadata calls it.
    """

    path: Path
    name: str
    architecture: str = ""
    parameters: int = 0
    quantization: str = ""
    n_ctx_train: int = 0
    width: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    vocabulary_family: str = ""
    vocabulary_size: int = 0
    file_size: int = 0
    chat_template: str | None = None
    tool_template: str | None = None
    tied: bool = False
    kind: Kind = "model"
    parts: tuple[Path, ...] = ()
    error: str | None = None
    title: str = ""


def read_info(path: str | Path) -> ModelInfo:
    """What the file at `path` holds. ModelError in one sentence if llama.cpp could not use it."""
    path = followed(Path(path))
    header = read_header(path)
    headers = [header, *(read_header(part) for part in _further_parts(header))]
    for part in headers:
        _check_tensor_data(part)
    architecture = _text(header, "general.architecture")
    check_settings(header, architecture)
    if not architecture:
        raise ModelError(f"{path} does not say which architecture it has; it is not a language model file.")
    kind = _kind(header, architecture)
    if kind in ("model", "vocabulary") and not supports_architecture(architecture):
        raise ModelError(
            f"{path} has the architecture '{architecture[:100]}', which the installed llama.cpp does not support; "
            "choose another model or a newer llama-cpp-python."
        )
    return _info(path, headers, architecture, kind)


def usable_info(path: str | Path) -> ModelInfo:
    """`read_info` for a file that shall be loaded: refuses what cannot generate text."""
    info = read_info(path)
    if info.kind in _UNUSABLE:
        raise ModelError(f"{info.path} {_UNUSABLE[info.kind]}; choose a chat model.")
    return info


def followed(path: Path) -> Path:
    """The file itself where a link leads to a part of a split model, beside which its other parts lie."""
    found = real(path) if path.is_symlink() else path
    return path if split_number(found) is None else found


def split_number(path: Path) -> int | None:
    """1 for the first file of a split model, 2 for the second; None for a file that is not a part by its name."""
    match = _SPLIT.match(path.name)
    return int(match["number"]) if match else None


def _shown_name(path: Path) -> str:
    """The file's name without its format: what `general.name` says is often the name of a training run."""
    split = _SPLIT.match(path.name)
    stem = split["stem"] if split else path.stem
    return _FORMAT.sub("", stem) or stem


def _info(path: Path, headers: list[GgufHeader], architecture: str, kind: Kind) -> ModelInfo:
    header = headers[0]
    heads = _number(header, f"{architecture}.attention.head_count")
    return ModelInfo(
        path=path,
        name=_shown_name(path),
        title=_text(header, "general.name"),
        architecture=architecture,
        parameters=sum(tensor.elements for part in headers for tensor in part.tensors.values()),
        quantization=_quantization(headers),
        n_ctx_train=_number(header, f"{architecture}.context_length"),
        width=_number(header, f"{architecture}.embedding_length"),
        layers=_number(header, f"{architecture}.block_count"),
        heads=heads,
        kv_heads=_number(header, f"{architecture}.attention.head_count_kv") or heads,
        vocabulary_family=_family(header),
        vocabulary_size=_length(header.metadata.get("tokenizer.ggml.tokens")),
        file_size=sum(part.file_size for part in headers),
        chat_template=_text(header, "tokenizer.chat_template") or None,
        tool_template=_text(header, "tokenizer.chat_template.tool_use") or None,
        tied=kind == "model" and not any("output.weight" in part.tensors for part in headers),
        kind=kind,
        parts=tuple(part.path for part in headers),
    )


def _kind(header: GgufHeader, architecture: str) -> Kind:
    type_name = _text(header, "general.type")
    if type_name == "adapter":
        return "adapter"
    if type_name in ("mmproj", "clip-vision") or architecture == "clip":
        return "projector"
    if not header.tensors:
        return "vocabulary"
    pooled = header.metadata.get(f"{architecture}.pooling_type", 0) not in _UNPOOLED
    if header.metadata.get(f"{architecture}.attention.causal") is False or pooled or architecture == "t5encoder":
        return "encoder"
    return "model"


def _further_parts(header: GgufHeader) -> list[Path]:
    """The other files of a split model; ModelError if `header` is not the first part or one is missing."""
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return []
    number = header.metadata.get("split.no", 0)
    if not isinstance(number, int) or count > _MOST_PARTS:
        raise ModelError(f"{header.path} is damaged: it does not say which part of a model it is.")
    match = _SPLIT.match(header.path.name)
    if match is None:
        raise ModelError(
            f"{header.path} is one of {count} parts, but was renamed; parts must end in -00001-of-{count:05d}.gguf."
        )
    names = [f"{match['stem']}-{part:05d}-of-{count:05d}.gguf" for part in range(1, count + 1)]
    if number != 0:
        raise ModelError(f"{header.path} is part {number + 1} of {count}; open {names[0]} instead.")
    parts = [header.path.with_name(name) for name in names[1:]]
    for part in parts:
        if not part.is_file():
            raise ModelError(f"{header.path} needs {part.name} beside it, which is missing; copy all {count} parts.")
    return parts


def _check_tensor_data(header: GgufHeader) -> None:
    """Every tensor's type known, its shape possible and its bytes inside the file: llama.cpp maps the file trusting all
    of that."""
    end = 0
    for name, tensor in header.tensors.items():
        layout = type_layout(tensor.type)
        if layout is None:
            raise ModelError(
                f"{header.path} stores {name} in a number format ({tensor.type}) the installed llama.cpp does not "
                "know; use another quantization of this model."
            )
        block, size = layout
        if 0 in tensor.shape or tensor.shape[0] % block:
            raise ModelError(f"{header.path} is damaged: {name} has the impossible shape {tensor.shape}.")
        end = max(end, header.data_start + tensor.offset + tensor.elements // block * size)
    if end > header.file_size:
        raise ModelError(
            f"{header.path} is cut short: it has {header.file_size:,} bytes of {end:,}; download or copy it again."
        )


def _quantization(headers: list[GgufHeader]) -> str:
    kind = headers[0].metadata.get("general.file_type")
    if isinstance(kind, int) and kind in _FTYPES:
        return _FTYPES[kind]
    sizes: Counter[int] = Counter()
    for header in headers:
        for tensor in header.tensors.values():
            sizes[tensor.type] += tensor.elements
    return type_names().get(sizes.most_common(1)[0][0], "") if sizes else ""


def _family(header: GgufHeader) -> str:
    model = _text(header, "tokenizer.ggml.model")
    return (_text(header, "tokenizer.ggml.pre") or "bpe") if model == "gpt2" else _FAMILIES.get(model, model)


def _text(header: GgufHeader, key: str) -> str:
    value = header.metadata.get(key, "")
    return value if isinstance(value, str) else ""


def _number(header: GgufHeader, key: str) -> int:
    """A count; some architectures give one per layer, then the largest."""
    value: Any = header.metadata.get(key, 0)
    values = [value] if not isinstance(value, list) else value
    return max((int(one) for one in values if isinstance(one, (int, float)) and math.isfinite(one)), default=0)


def _length(value: Any) -> int:
    return value.length if isinstance(value, ArrayShape) else len(value) if isinstance(value, list) else 0


def context_length(info: ModelInfo, settings: ModelSettings) -> tuple[int, list[str]]:
    """(tokens, a sentence where they are fewer than somebody asked for)."""
    trained = info.n_ctx_train
    wanted = settings.n_ctx or trained or 4096
    if not trained or wanted <= trained:
        return wanted, []
    if settings.n_ctx == ModelSettings().n_ctx:  # the default means "at most"
        return trained, []
    return trained, [f"{info.name} was trained for {trained} tokens of context, so {wanted} became {trained}."]


# Decides whether a GGUF LoRA file fits a model, before llama.cpp sees it. llama.cpp refuses some misfits and aborts
# the whole process on others (an adapter on `token_embd.weight` loads, then fails an assertion), so only tensors known
# to work are let through. Values are not looked at.


_NAME = re.compile(
    r"(?P<weight>(?:blk\.\d+\.(?:attn_(?:q|k|v|output)|ffn_(?:gate|up|down))|output)\.weight)\.lora_(?P<half>[ab])"
)
_TYPES = ("F32", "F16", "BF16", "Q8_0")


def check_adapter(path: str | Path, model: ModelInfo) -> None:
    """ModelError naming the first reason why the LoRA at `path` cannot be used with `model`; else nothing."""
    if read_info(path).kind != "adapter":
        raise ModelError(f"{path} is not a LoRA adapter.")
    header = read_header(path)
    if header.metadata.get("adapter.type") != "lora":
        raise ModelError(f"{path} is an adapter of another kind than LoRA.")
    architecture = header.metadata.get("general.architecture")
    if architecture != model.architecture:
        raise ModelError(
            f"{path} is an adapter for '{str(architecture)[:100]}' models, but {model.name} is '{model.architecture}'."
        )
    alpha = header.metadata.get("adapter.lora.alpha", 0.0)
    kind = header.kinds.get("adapter.lora.alpha", FLOAT32)
    if kind != FLOAT32 or not isinstance(alpha, float) or not 0 <= alpha < 1e6:
        raise ModelError(f"{path} has the impossible LoRA alpha {str(alpha)[:100]}.")
    if not header.tensors:
        raise ModelError(f"{path} is an adapter without tensors.")
    pairs = _pairs(path, header.tensors)
    weights = {name: tensor for part in model.parts for name, tensor in read_header(part).tensors.items()}
    for weight, pair in pairs.items():
        _check_pair(path, weight, pair, weights, model)


def _pairs(path: str | Path, tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors by the weight they change and their half, "a" or "b"."""
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ModelError(f"{path} changes {name[:100]}, which is not among the weights an adapter may change.")
        pairs.setdefault(match["weight"], {})[match["half"]] = tensor
    return pairs


def _check_pair(
    path: str | Path, weight: str, pair: dict[str, Tensor], weights: dict[str, Tensor], model: ModelInfo
) -> None:
    if len(pair) != 2:
        raise ModelError(f"{path} has only one half of the LoRA for {weight[:100]}.")
    if weight not in weights:
        tied = " (it shares its output weights with the token embedding)" if weight == "output.weight" else ""
        raise ModelError(f"{path} changes {weight[:100]}, which {model.name} does not have{tied}.")
    for tensor in pair.values():
        if len(tensor.shape) != 2 or type_names().get(tensor.type) not in _TYPES:
            raise ModelError(f"{path} stores the LoRA for {weight} in a form that is not supported.")
    (inputs, rank), (rank_b, outputs) = pair["a"].shape, pair["b"].shape
    if (inputs, outputs) != weights[weight].shape or rank != rank_b:
        raise ModelError(
            f"{path} does not fit {model.name}: its LoRA for {weight} is {inputs}x{rank} by {rank_b}x{outputs}, "
            f"the weight is {'x'.join(map(str, weights[weight].shape))}."
        )
