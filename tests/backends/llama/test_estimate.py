"""The memory a model takes is known before it is loaded, and a load that cannot fit is refused with the numbers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama import estimate as module
from omnidraft.backends.llama.estimate import check_memory, estimate, header_estimate
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.rewind import rollback_steps
from omnidraft.backends.llama.sizes import kv_cache_bytes
from omnidraft.errors import ModelError
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings
from tests.backends.tiny_models import MODELS, write

BUNDLED = "tiny-target-a-f16.gguf"
ROOT = Path(__file__).resolve().parents[3]
# Loads a model, fills its context, verifies with all rows; prints by how many bytes the process grew.
_USE = """
import json, sys
import numpy as np
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.sizes import give_back
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

path, settings = sys.argv[1], ModelSettings(threads=1, **json.loads(sys.argv[2]))
with LlamaTarget.open(sys.argv[3], settings) as first:  # the library's own pages come with the first model
    first.extend(list(range(100)), 64)
vocabulary = read_gguf_vocabulary(path)
give_back()  # what was freed would be used again unseen
before = resident()
target = LlamaTarget.open(path, settings, vocabulary=vocabulary)
ids = np.resize(np.flatnonzero(vocabulary.ordinary), target.n_ctx).tolist()
target.extend(ids, 64)
print(resident() - before)
"""


def llama(width: int, layers: int, heads: int, kv: int, inner: int, rows: int) -> tuple[str, dict, dict]:
    """A Llama of zeros in F16."""
    head = width // heads
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [f"t{number}" for number in range(rows - len(pieces))]
    keys = {
        "llama.context_length": 32768, "llama.embedding_length": width, "llama.block_count": layers,
        "llama.feed_forward_length": inner, "llama.attention.head_count": heads, "llama.attention.head_count_kv": kv,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * rows,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (rows - 259)],
    }  # fmt: skip
    shapes = {
        "attn_q": (width, width), "attn_k": (kv * head, width), "attn_v": (kv * head, width),
        "attn_output": (width, width), "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner),
    }  # fmt: skip
    tensors = {"token_embd.weight": np.zeros((rows, width), np.float16), "output_norm.weight": np.ones(width, "f4")}
    for layer in range(layers):
        tensors |= {f"blk.{layer}.{name}.weight": np.zeros(shape, np.float16) for name, shape in shapes.items()}
        tensors |= {f"blk.{layer}.{name}.weight": np.ones(width, np.float32) for name in ("attn_norm", "ffn_norm")}
    return "llama", keys, tensors


SHAPES = {
    "bundled": (None, {"n_ctx": 1024}),
    "bundled, a short context": (None, {"n_ctx": 256}),
    "two wide layers": (llama(768, 2, 12, 12, 3072, 32000), {"n_ctx": 1024}),
    "grouped heads, quantized cache": (llama(512, 8, 8, 2, 1536, 8192), {"n_ctx": 2048, "kv_type": "q8_0"}),
    "large vocabulary": (llama(256, 4, 4, 4, 768, 151936), {"n_ctx": 1024}),
    "long context": (llama(256, 12, 4, 4, 512, 4096), {"n_ctx": 2048}),
}


LONG = {"bundled, a short context", *list(SHAPES)[3:]}  # seconds each


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SHAPES])
def shaped(request, models: Path, tmp_path: Path):
    """(file, settings)."""
    shape, settings = SHAPES[request.param]
    return (write(tmp_path / "shape.gguf", *shape) if shape else models / BUNDLED), settings


def test_the_estimate_is_within_a_tenth_of_what_is_then_used(shaped, models: Path):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    path, settings = shaped
    expected = estimate(read_info(path), ModelSettings(**settings), settings["n_ctx"])
    done = subprocess.run(
        [sys.executable, "-c", _USE, str(path), json.dumps(settings), str(models / "tiny-target-b-f16.gguf")],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    used = int(done.stdout)
    print(f"estimated {expected}, used {used / 1e6:.1f} MB ({used / expected.total:.3f})")
    assert used == pytest.approx(expected.total, rel=0.1)


def test_what_pages_show_is_what_a_load_is_refused_by(shaped):
    path, settings = shaped
    info = read_info(path)
    shown = header_estimate(info, ModelSettings(**settings), settings["n_ctx"])
    known = estimate(info, ModelSettings(**settings), settings["n_ctx"])
    assert (shown.weights, shown.cache) == pytest.approx((known.weights, known.cache), rel=0.01)
    assert shown.total == pytest.approx(known.total, rel=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_memory_is_counted(tiny_model, name: str):
    info = read_info(tiny_model(name))
    short, long = (estimate(info, ModelSettings(), n, 64, rollback_steps(info)) for n in (256, 512))
    assert short.weights == long.weights > 100_000
    if name == "mamba":
        assert long.cache == short.cache > 0
    else:
        assert long.cache > short.cache > 0
    assert short.compute > 0


@pytest.fixture
def bundled(models: Path):
    return read_info(models / BUNDLED)


def test_a_load_that_cannot_fit_is_refused_with_numbers_and_a_way_out(bundled, monkeypatch: pytest.MonkeyPatch):
    settings = ModelSettings(n_ctx=1024)
    needed = estimate(bundled, settings, 1024)
    check_memory(bundled, settings, 1024)
    for free, suggestion in {
        needed.total - 1_000_000: r"set the context length to (512|768) or less or the KV cache format to q8_0",
        needed.total - 3_000_000: "choose a smaller model|context length|KV cache format",
        needed.weights // 2: "choose a smaller model or a more strongly quantized file.*omnidraft worker.*--workers",
    }.items():
        monkeypatch.setattr(module, "available_bytes", lambda free=free: free)
        with pytest.raises(ModelError, match=suggestion) as caught:
            LlamaTarget.open(bundled.path, settings)
        message = str(caught.value)
        assert f"needs {needed}" in message or free < needed.weights
        assert f"weights {size(needed.weights)}, cache {size(needed.cache)}" in message
        assert f"{size(free)} of memory are free" in message
    monkeypatch.setattr(module, "available_bytes", lambda: needed.total + 500_000)
    check_memory(bundled, settings, 1024)
    monkeypatch.setattr(module, "available_bytes", lambda: None)  # the system does not say
    check_memory(bundled, settings, 1024)


def test_following_the_suggestion_helps(bundled, monkeypatch: pytest.MonkeyPatch):
    free = estimate(bundled, ModelSettings(), 1024).total - 500_000
    monkeypatch.setattr(module, "available_bytes", lambda: free)
    with pytest.raises(ModelError) as caught:
        check_memory(bundled, ModelSettings(), 1024)
    fits = int(str(caught.value).split("set the context length to ")[1].split()[0])
    check_memory(bundled, ModelSettings(), fits)


def test_an_absurd_context_is_refused_at_once(bundled, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "estimate", lambda *_: pytest.fail("no need to ask"))
    with pytest.raises(ModelError, match=r"context of 1000000000 tokens"):
        check_memory(bundled, ModelSettings(), 10**9)


@pytest.mark.parametrize(
    ("architecture", "heads"),
    [("llama", [4, 1, 2]), ("lfm2", [4, 0, 2])],  # a layer of no heads is one without attention, illegal in a Llama
)
def test_heads_may_differ_by_layer(write_gguf, architecture: str, heads: list[int]):
    keys = {"block_count": 3, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": heads}
    info = read_info(write_gguf("layers.gguf", architecture, {f"{architecture}.{k}": v for k, v in keys.items()}))
    assert kv_cache_bytes(info, 1, "f16") == sum(heads) * 32 * 2
