"""What a folder takes is known before it is loaded, and a load that cannot fit is refused with a way out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.backends.hf import load
from omnidraft.backends.hf.folder import folder_estimate, read_folder
from omnidraft.backends.hf.target import HfTarget
from omnidraft.errors import ModelError
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings
from tests.backends.hf_folders import write_folder

ROOT = Path(__file__).resolve().parents[3]
SHAPES = {
    "wide": ("LlamaConfig", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
                             "num_key_value_heads": 12, "vocab_size": 32000}, {"n_ctx": 2048}),
    "grouped heads": ("LlamaConfig", {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8,
                                      "num_attention_heads": 8, "vocab_size": 8192}, {"n_ctx": 4096}),
    "large tied vocabulary": ("Qwen2Config", {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4,
                                              "num_key_value_heads": 4, "vocab_size": 151936,
                                              "tie_word_embeddings": True}, {"n_ctx": 1024}),
    "long context": ("LlamaConfig", {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 12,
                                     "num_key_value_heads": 4, "vocab_size": 4096}, {"n_ctx": 4096}),
    "wide heads in bfloat16": ("Qwen3Config", {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6,
                                               "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128,
                                               "vocab_size": 16384}, {"n_ctx": 2048, "dtype": "bfloat16"}),
}  # fmt: skip
# Loads a folder, fills its context, verifies with 64 rows; prints the most by which the process had grown meanwhile.
_USE = """
import json, sys
import numpy as np
from omnidraft.backends.hf.target import HfTarget
from omnidraft.settings.config import ModelSettings

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

with HfTarget.open(sys.argv[2], ModelSettings(n_ctx=128, device="cpu")) as first:  # the library's own memory
    first.extend(list(range(100)), 64)
before = status("VmRSS")
target = HfTarget.open(sys.argv[1], ModelSettings(device="cpu", **json.loads(sys.argv[3])))
open("/proc/self/clear_refs", "w").write("5")  # the most from here on
target.extend(np.resize(np.flatnonzero(target.vocabulary.ordinary), target.n_ctx).tolist(), 64)
print(status("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_the_estimate_is_within_a_tenth_of_what_is_then_used(tmp_path: Path, name: str):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs /proc")
    config, sizes, settings = SHAPES[name]
    folder = write_folder(tmp_path / "shape", config, max_position_embeddings=8192, **sizes)
    first = write_folder(tmp_path / "first")
    command = [sys.executable, "-c", _USE, str(folder), str(first), json.dumps(settings)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    dtype = settings.get("dtype", "float32")
    expected, used = folder_estimate(read_folder(folder), "cpu", dtype, settings["n_ctx"]), int(done.stdout)
    print(f"{name}: estimated {expected}, used {used / 1e6:.1f} MB ({used / expected.total:.3f})")
    assert used == pytest.approx(expected.total, rel=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "wide"
    return write_folder(path, hidden_size=256, num_hidden_layers=4, vocab_size=16000, max_position_embeddings=8192)


def test_a_load_that_cannot_fit_is_refused_with_numbers_and_a_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch):
    info = read_folder(folder)
    settings = ModelSettings(n_ctx=8192, dtype="float32", device="cpu")

    def needed(dtype: str, n_ctx: int) -> int:
        return folder_estimate(info, "cpu", dtype, n_ctx).total

    for free, way_out in {
        needed("float32", 8192) - 1: "set the context length to 4096 or less",
        needed("float32", 1024): "set the context length to 1024 or less",
        needed("bfloat16", 64) // 4: "use a quantized GGUF of this model, a smaller model or a shorter context",
    }.items():
        monkeypatch.setattr(load, "available_bytes", lambda free=free: free)
        with pytest.raises(ModelError) as caught:
            HfTarget.open(folder, settings)
        sentence = str(caught.value)
        assert f"wide needs {folder_estimate(info, 'cpu', 'float32', 8192)} in float32" in sentence
        assert f"with a context of 8192 tokens, but {size(free)} of memory are free; {way_out}." in sentence


def test_a_shorter_format_is_suggested_where_no_shorter_context_helps(folder: Path, monkeypatch: pytest.MonkeyPatch):
    half = folder_estimate(read_folder(folder), "cpu", "bfloat16", 600).total
    monkeypatch.setattr(load, "available_bytes", lambda: half)
    with pytest.raises(ModelError, match="set dtype to bfloat16"):
        HfTarget.open(folder, ModelSettings(n_ctx=600, dtype="float32", device="cpu"))
    HfTarget.open(folder, ModelSettings(n_ctx=600, dtype="bfloat16", device="cpu")).close()
