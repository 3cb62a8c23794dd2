"""Makes a GGUF file of a Llama-architecture Hugging Face folder, so that it can draft: `convert_folder`.

Checks before it is kept that llama.cpp tokenizes with it as the folder's own tokenizer does. Knows the Llama layout
only; other architectures are refused.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import safe_open

from omnidraft.backends.gguf.header import permuted
from omnidraft.backends.hf.folder import read_config, read_folder
from omnidraft.errors import ModelError, StorageError
from omnidraft.format import size
from omnidraft.storage import scratch
from omnidraft.storage.files import read_json, reason
from omnidraft.vocab import TokenKind, Vocabulary
from omnidraft.vocab.hf_vocab import read_template, read_tokenizer_json
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

DTYPES = ("F32", "F16", "Q8_0")
_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_IGNORED = ("rotary_emb.inv_freq",)
_SPLITTERS = ("llama-bpe", "qwen2", "smollm", "gpt-2", "deepseek-llm", "tekken", "olmo", "default")
_PROBES = (
    "The quick  brown\tfox's 12345 déjà-vu,\n\n  if x >= 3.14: return '中文' 😀 don't",
    "Hello there. How are you?\r\n1. One\n2. TWO   three  don't we'll I'D\n\n\n",
    "def f(x_1):\n    return {'a': [1, 22, 333, 4444]}  # naïve №½ ﬁ",
)


def convert_folder(folder: Path, out: Path, dtype: str = "F16", name: str | None = None, licence: str = "") -> Path:
    """Write the model in `folder` as GGUF to `out`; `dtype` of the matrices is "F32", "F16" or "Q8_0".

    ModelError in one sentence for a folder that cannot be converted; then `out` is not touched.
    """
    info, config = read_folder(folder), read_config(folder)
    _check(folder, config)
    tokenizer = _Tokenizer(folder / "tokenizer.json")
    if tokenizer.vocabulary.size != info.vocabulary_size:
        raise ModelError(f"{folder} has more tokens than the {info.vocabulary_size} rows of its weights.")
    need_space(out.parent, 4 * info.parameters)
    splitter = _fitting_splitter(tokenizer)
    with replacing(out) as temporary:
        writer = gguf.GGUFWriter(temporary, "llama")
        _put_settings(writer, config, dtype, name or folder.resolve().name)
        if licence:
            writer.add_license(licence)
        tokenizer.put(writer, splitter)
        templates = {variant: read_template(folder, variant) for variant in ("default", "tool_use")}
        writer.add_chat_template([{"name": kind, "template": text} for kind, text in templates.items() if text])
        for tensor, array in _tensors(folder, config, info.parts):
            _add(writer, tensor, array, dtype)
        _finish(writer)
    return out


class _Tokenizer:
    """A tokenizer.json (SentencePiece style with byte fallback, or byte-level BPE) as the keys that a GGUF file keeps.

    GGUF does not store how byte-level text is cut before merging, it names one of llama.cpp's ways; splitters: those
    worth trying.
    """

    def __init__(self, path: Path) -> None:
        self.vocabulary = read_tokenizer_json(path)
        content = read_json(path.read_text(encoding="utf-8"))
        model = content["model"]
        if model.get("type", "BPE") != "BPE" or not isinstance(model.get("merges"), list):
            raise ModelError(f"{path} is not the file of a byte-pair tokenizer (BPE), the only kind supported.")
        self._byte_level = self.vocabulary.family == "bpe"
        if not self._byte_level and not model.get("byte_fallback"):
            raise ModelError(f"{path} has neither byte-level pieces nor byte fallback, so it cannot spell every text.")
        self.splitters = _SPLITTERS if self._byte_level else ("default",)
        self._merges = [tuple(m.split(" ", 1) if isinstance(m, str) else m) for m in model["merges"]]
        texts = {token: text for text, token in model["vocab"].items()}
        texts |= {token["id"]: token["content"] for token in content.get("added_tokens") or []}
        self._tokens = [texts.get(token, f"[PAD{token}]") for token in range(self.vocabulary.size)]

    def put(self, writer: gguf.GGUFWriter, splitter: str) -> None:
        vocabulary, kinds = self.vocabulary, self.vocabulary.kinds
        writer.add_tokenizer_model("gpt2" if self._byte_level else "llama")
        writer.add_tokenizer_pre(splitter)
        writer.add_token_list(self._tokens)
        writer.add_token_types([gguf.TokenType[TokenKind(kind).name] for kind in kinds])
        writer.add_vocab_size(vocabulary.size)
        if self._byte_level:
            writer.add_token_merges([" ".join(merge) for merge in self._merges])
        else:
            writer.add_token_scores(self._scores())
            writer.add_add_space_prefix(vocabulary.encoder.adds_space)
        writer.add_add_bos_token(vocabulary.add_bos and vocabulary.bos is not None)
        unknown = next(iter(np.flatnonzero(kinds == TokenKind.UNKNOWN).tolist()), None)
        for add, token in (
            (writer.add_bos_token_id, vocabulary.bos), (writer.add_eos_token_id, vocabulary.eos),
            (writer.add_unk_token_id, unknown),
        ):  # fmt: skip
            if token is not None:
                add(token)

    def _scores(self) -> list[float]:
        """SentencePiece merges what has the highest score first: minus the rank of the earliest merge into it."""
        ranks: dict[str, int] = {}
        for rank, (left, right) in enumerate(self._merges):
            ranks.setdefault(left + right, rank)
        return [-float(ranks.get(token, len(self._merges))) for token in self._tokens]

    def as_llama_cpp_cuts(self, splitter: str) -> Vocabulary:
        """Written as GGUF and read back."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "vocabulary.gguf")
            writer = gguf.GGUFWriter(path, "llama")
            self.put(writer, splitter)
            _finish(writer)
            return read_gguf_vocabulary(path)


def _check(folder: Path, config: dict[str, Any]) -> None:
    """Refuse what the Llama layout does not cover."""
    kind = config.get("model_type")
    if kind != "llama":
        raise ModelError(
            f"{folder} is a '{kind}' model; only Llama-like folders can be imported, so use a GGUF of this model."
        )
    act, bias = config.get("hidden_act", "silu"), config.get("attention_bias") or config.get("mlp_bias")
    if act != "silu" or bias:
        raise ModelError(f"{folder} differs from Llama's layout ({'biases' if bias else act}); use a GGUF of it.")
    _rope_factors(config)


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings, wherever this version of the configuration keeps them."""
    settings = {"rope_theta": config.get("rope_theta", 10000.0), **(config.get("rope_scaling") or {})}
    settings.update(config.get("rope_parameters") or {})
    settings["kind"] = settings.get("rope_type") or settings.get("type") or "default"
    return settings


def _head_width(config: dict[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _rope_factors(config: dict[str, Any]) -> np.ndarray | None:
    """Llama 3's divisors of the rotary frequencies, (head width / 2,); None for plain or linearly scaled ones."""
    rope = _rope(config)
    if rope["kind"] in ("default", "linear"):
        return None
    if rope["kind"] != "llama3":
        raise ModelError(f"Rotary scaling of the kind '{rope['kind']}' cannot be imported; use a GGUF of this model.")
    width = _head_width(config)
    frequencies = rope["rope_theta"] ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    old = rope["original_max_position_embeddings"]
    share = np.clip((old * frequencies / (2 * math.pi) - low) / (high - low), 0, 1)  # 1: kept, 0: divided by factor
    return (1 / ((1 - share) / factor + share)).astype(np.float32)


def _put_settings(writer: gguf.GGUFWriter, config: dict[str, Any], dtype: str, name: str) -> None:
    heads = config["num_attention_heads"]
    writer.add_name(name)
    writer.add_context_length(config.get("max_position_embeddings", 2048))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(_head_width(config))
    writer.add_value_length(_head_width(config))
    writer.add_rope_dimension_count(_head_width(config))
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    rope = _rope(config)
    writer.add_rope_freq_base(float(rope["rope_theta"]))
    if rope["kind"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(rope["factor"]))
    types = {"F32": "ALL_F32", "F16": "MOSTLY_F16", "Q8_0": "MOSTLY_Q8_0"}
    writer.add_file_type(gguf.LlamaFileType[types[dtype]])


def _tensors(folder: Path, config: dict[str, Any], parts: Sequence[Path]) -> Iterator[tuple[str, np.ndarray]]:
    """(GGUF name, float32 array) of every weight, one at a time; ModelError if there are some this layout has no place
    for."""
    files = [safe_open(part, framework="pt") for part in parts]
    left = {name: file for file in files for name in file.keys() if not name.endswith(_IGNORED)}  # noqa: SIM118

    def take(name: str) -> np.ndarray:
        if name not in left:
            raise ModelError(f"The weights lack {name}; download them again.")
        return left.pop(name).get_tensor(name).float().numpy()

    yield "token_embd.weight", take("model.embed_tokens.weight")
    yield "output_norm.weight", take("model.norm.weight")
    if "lm_head.weight" in left:
        output = take("lm_head.weight")
        if not config.get("tie_word_embeddings"):  # a tied folder may still repeat the tensor
            yield "output.weight", output
    factors = _rope_factors(config)
    if factors is not None:
        yield "rope_freqs.weight", factors
    heads = config["num_attention_heads"]
    count = {"q": heads, "k": config.get("num_key_value_heads") or heads}
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in _LAYER.items():
            array = take(f"model.layers.{layer}.{theirs}")
            if ours in ("attn_q.weight", "attn_k.weight"):
                array = permuted(array, count[ours[5]])
            yield f"blk.{layer}.{ours}", array
    if left:
        raise ModelError(f"{folder} has weights that Llama's layout has no place for: {sorted(left)[0]}.")


def _add(writer: gguf.GGUFWriter, name: str, array: np.ndarray, dtype: str) -> None:
    """Matrices as `dtype`, vectors as float32."""
    if array.ndim < 2 or dtype == "F32":
        writer.add_tensor(name, np.ascontiguousarray(array, np.float32))
    elif dtype == "Q8_0" and array.shape[-1] % 32 == 0:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    else:
        if np.abs(array).max(initial=0) > np.finfo(np.float16).max:
            raise ModelError(f"{name} has numbers too large for F16; import with --dtype F32.")
        writer.add_tensor(name, array.astype(np.float16))


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _fitting_splitter(tokenizer: _Tokenizer) -> str:
    """The way of cutting text with which llama.cpp tokenizes like tokenizer.json."""
    theirs = tokenizer.vocabulary
    for splitter in tokenizer.splitters:
        ours = tokenizer.as_llama_cpp_cuts(splitter)
        ids = [ours.encode(probe) for probe in _PROBES]
        if ids == [theirs.encode(probe) for probe in _PROBES]:
            return splitter
    raise ModelError("This folder has a tokenizer that llama.cpp cannot follow exactly; use a GGUF of this model.")


# Large files that appear only when they are complete, and room for them on the disk.

SUFFIX = ".gguf-part"  # of files that are being written


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """An empty file, moved onto `out` when the block ends well, so that that is complete or absent. StorageError.

    The gigabytes that killed processes left in that folder, for whatever file, go first.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch.sweep_files(out.parent, f".*{SUFFIX}")
        with scratch.replacing(out, SUFFIX) as temporary:
            yield temporary
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {reason(error)}.") from error


def need_space(folder: Path, needed: int) -> None:
    """StorageError unless `folder` has `needed` bytes free, and 5% to spare."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 1.05 * needed:
        raise StorageError(f"{folder} has {size(free)} free; this needs {size(1.05 * needed)}.")
