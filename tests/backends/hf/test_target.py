"""What is particular to targets in Hugging Face folders: the library itself, architectures, refusals, no network."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.hf.target import HfTarget
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings, SamplingSettings
from tests.answering import loaded, same_with_drafter
from tests.backends.hf_folders import TEMPLATE, change_config, write_folder
from tests.backends.tiny_models import ids_of

SETTINGS = ModelSettings(n_ctx=512, threads=1, device="cpu")
TOLERANCE = 1e-3  # float32; the logits spread over about 10
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny random")


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[HfTarget]:
    with HfTarget.open(folder, SETTINGS) as target:
        yield target


@pytest.fixture
def target(opened: HfTarget) -> HfTarget:
    opened.rewind(0)
    return opened


def test_it_says_what_it_is_and_computes_what_the_library_computes(target: HfTarget, folder: Path):
    import torch
    import transformers

    assert (target.name, target.device, target.dtype, target.info.chat_template) == (
        "tiny random", "cpu", "float32", TEMPLATE,
    )  # fmt: skip
    assert (target.info.architecture, target.info.quantization) == ("llama", "F32")
    ids = ids_of(target, 40)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        expected = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    np.testing.assert_allclose(target.extend(ids, 40), expected, atol=TOLERANCE)


def test_loading_a_folder_asks_no_network_and_leaves_downloads_possible(folder: Path, monkeypatch):
    """Downloads happen in the same process, later: the library must not be told to stay offline for good."""
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **_: asked.append(a) or [])
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    HfTarget.open(folder, SETTINGS).close()
    assert asked == []
    assert "HF_HUB_OFFLINE" not in os.environ


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        HfTarget.open(path, SETTINGS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def weights(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """With other bytes for weights."""
    return lambda folder: (file := folder / "model.safetensors").write_bytes(change(file.read_bytes()))


@pytest.mark.parametrize(("change", "told"), [
    (lambda folder: (folder / "model.safetensors").unlink(), "no weights"),
    (weights(lambda whole: whole[:-1000]), "cut short"), (weights(lambda _: b"\xff" * 1000), "damaged"),
    (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer"),
    (partial(change_config, model_type="own-thing", auto_map={"AutoModelForCausalLM": "own.OwnModel"}), "never run"),
    (partial(change_config, quantization_config={"quant_method": "gptq", "bits": 4}), "quantized with gptq"),
    (partial(change_config, num_hidden_layers=4), "lacks weights"),
    (partial(change_config, architectures=["BertModel"]), "no plain text model"),
    (lambda folder: (folder / "config.json").unlink(), "config.json"), (shutil.rmtree, "does not exist"),
])  # fmt: skip
def test_folders_that_cannot_be_targets_are_refused_with_a_reason(folder: Path, tmp_path: Path, change, told: str):
    change(other := Path(shutil.copytree(folder, tmp_path / "other")))
    assert told in refusal(other)


def test_models_with_a_state_are_refused_with_a_reason(tmp_path: Path):
    mamba = write_folder(tmp_path / "mamba", "MambaConfig", state_size=8, num_hidden_layers=1)
    assert "state" in refusal(mamba)
    change_config(folder := write_folder(tmp_path / "hybrid"), layer_types=["mamba", "full_attention"])
    assert "mamba" in refusal(folder)


def test_settings_that_cannot_be_followed_are_told(folder: Path):
    with HfTarget.open(folder, ModelSettings(n_ctx=2000, kv_type="q8_0", device="cpu")) as target:
        assert target.n_ctx == 512
        assert any("2000 became 512" in notice for notice in target.notices)
        assert any("q8_0" in notice for notice in target.notices)


@pytest.mark.parametrize("name", ["tiny-target-a", "tiny-target-b"])
def test_the_vocabulary_and_the_logits_are_those_of_the_gguf_beside_it(shared: Path, name: str):
    folder = shared / "bundle" / name
    with HfTarget.open(folder, SETTINGS) as target, LlamaTarget.open(folder / f"{name}-f16.gguf", SETTINGS) as file:
        assert target.vocabulary.fingerprint == file.vocabulary.fingerprint
        ids = ids_of(target, 40)
        np.testing.assert_allclose(target.extend(ids, 10), file.extend(ids, 10), atol=0.05)


def test_the_text_is_the_same_with_and_without_drafter(folder: Path, models: Path, tmp_path: Path):
    sampling = SamplingSettings(temperature=1.0, seed=5, max_tokens=40)
    with loaded(tmp_path, folder, models / "tiny-drafter-f16.gguf") as assistant:
        ends = same_with_drafter(assistant, ("Hello there, how are you?", "What is 12 + 30?"), sampling)
    assert sum(end.statistics.proposed for end in ends) > 20


def test_nothing_imports_torch_unless_a_folder_is_loaded(models: Path, tmp_path: Path):
    code = """
import sys
from pathlib import Path
from omnidraft.app.assistant import Assistant
from omnidraft.backends.discovery import find_models
from omnidraft.decoding.request import AnswerRequest
from omnidraft.storage.paths import find_data_home
import omnidraft.cli.chat, omnidraft.cli.models, omnidraft.backends.opening, ui.server
find_models([Path(sys.argv[3]), Path(sys.argv[1]).parent])
assistant = Assistant(find_data_home(sys.argv[2]), ephemeral=True)
assistant.load(Path(sys.argv[1]), None)
list(assistant.answer(AnswerRequest([{"role": "user", "content": "hi"}])))
assistant.close()
print(sorted({"torch", "transformers"} & sys.modules.keys()))
"""
    arguments = [str(models / "tiny-target-a-f16.gguf"), str(tmp_path), str(ROOT.parent / "shared" / "bundle")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
