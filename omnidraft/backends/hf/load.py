"""Opens the model of a Hugging Face folder with transformers: device, number format, and the sentence where it cannot.

Nothing comes from the network and no program code comes from the folder. torch and transformers are imported when the
first folder is opened, not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.hf.estimate import check_room, folder_estimate
from omnidraft.backends.hf.folder import state_layers
from omnidraft.backends.llama.sizes import available_bytes, give_back
from omnidraft.errors import ModelError, first_line


@dataclass(frozen=True, slots=True)
class Loaded:
    """model: a transformers model in evaluation mode; cache: its empty KV cache; rows and inputs: logits, known ids."""

    model: Any
    cache: Any
    rows: int
    inputs: int


def choose_device(wanted: str) -> str:
    """ "cpu", "cuda:0" (the GPU with the most free memory) or "mps"; ModelError if `wanted` is not there."""
    torch = import_torch()
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if wanted == "auto":
        wanted = "cuda" if has_cuda else "mps" if has_mps else "cpu"
    if (wanted == "cuda" and not has_cuda) or (wanted == "mps" and not has_mps):
        raise ModelError(
            f"The installed torch finds no {wanted.upper()} device on this machine; set device to auto or cpu, or "
            "install a torch built for your GPU."
        )
    if wanted == "cuda":
        wanted = f"cuda:{max(range(torch.cuda.device_count()), key=lambda index: torch.cuda.mem_get_info(index)[0])}"
    return wanted


def choose_dtype(info: ModelInfo, device: str, wanted: str, n_ctx: int) -> str:
    """`wanted`, or for "auto": on a GPU half precision, on the processor float32, or bfloat16 if only that fits.

    float32 on the processor, because there half precision makes near-ties out of close decisions: the same text with
    and without a drafter is then less of a promise.
    """
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16" if import_torch().cuda.is_bf16_supported() else "float16"
    if device == "mps":
        return "float16"
    free = available_bytes()
    fits = free is None or folder_estimate(info, device, "float32", n_ctx).total < free
    return "float32" if fits or info.quantization not in ("BF16", "F16") else "bfloat16"


def load(info: ModelInfo, device: str, dtype: str, threads: int, n_ctx: int, spare: int = 0) -> Loaded:
    """The model on `device`, ready for passes; ModelError in one sentence if it cannot serve."""
    torch = import_torch()
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    loader = _loader(info, transformers)
    check_room(info, device, dtype, n_ctx, _free_bytes(device))
    try:
        return _prepared(_read(info, dtype, loader), device, dtype, n_ctx + spare, state_layers(info.path))
    except ModelError:
        raise
    except Exception as error:  # the libraries raise anything for a faulty file
        raise ModelError(f"{info.path} could not be loaded: {first_line(error)}.") from error


def _read(info: ModelInfo, dtype: str, loader: Any) -> Any:
    computed = "bfloat16" if dtype == "int8" else dtype
    model, outcome = loader.from_pretrained(
        str(info.path), dtype=getattr(import_torch(), computed), local_files_only=True, trust_remote_code=False,
        use_safetensors=info.parts[0].suffix == ".safetensors", weights_only=True, output_loading_info=True,
    )  # fmt: skip
    missing = sorted(outcome["missing_keys"])
    if missing:  # transformers would go on with random numbers in their place
        rest = f"{missing[0]} and {len(missing) - 1} more"
        raise ModelError(f"{info.path} lacks weights ({rest}); download it again.")
    return model.eval()


def _prepared(model: Any, device: str, dtype: str, n_ctx: int, states: list[bool]) -> Loaded:
    from omnidraft.backends.hf.cache import CuttableCache
    from omnidraft.backends.hf.linear import pack_linears, quantize_linears

    rows = model.get_output_embeddings().weight.shape[0]
    inputs = model.get_input_embeddings().weight.shape[0]
    if dtype == "int8":
        quantize_linears(model)
    model = model.to(device)
    if device == "cpu":
        pack_linears(model)
        for parameter in model.parameters():  # what is left are views into the mapped file, which they keep mapped
            parameter.data = parameter.data.clone()
        give_back()
    return Loaded(model, CuttableCache(n_ctx, states), rows, inputs)


def _loader(info: ModelInfo, transformers: Any) -> Any:
    """What loads this architecture: as a text model, or as one that reads pictures too where there is no other."""
    known = transformers.models.auto.modeling_auto
    try:
        config = transformers.AutoConfig.from_pretrained(str(info.path), local_files_only=True, trust_remote_code=False)
        as_text = type(config) in known.MODEL_FOR_CAUSAL_LM_MAPPING
        mapping = known.MODEL_FOR_CAUSAL_LM_MAPPING if as_text else known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        model_class = mapping[type(config)]
    except Exception:  # KeyError, ValueError, or whatever a configuration's own checks raise
        raise ModelError(
            f"{info.path} has the architecture '{info.architecture[:100]}', which the installed transformers cannot "
            "run without program code from the folder, and such code is never run; use a GGUF of this model."
        ) from None
    if getattr(model_class, "_is_stateful", False) and not state_layers(info.path):
        raise ModelError(
            f"{info.path} is a '{info.architecture}' model, whose state cannot take tokens back in a Hugging Face "
            "folder; use a GGUF of this model."
        )
    return transformers.AutoModelForCausalLM if as_text else transformers.AutoModelForImageTextToText


def _free_bytes(device: str) -> int | None:
    if device.startswith("cuda"):
        return import_torch().cuda.mem_get_info(device)[0]
    return available_bytes()


def import_torch() -> Any:
    """torch; ModelError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise ModelError("Hugging Face folders need torch and transformers; install requirements.txt.") from None
    return torch
