"""A Llama-like folder made into a GGUF file computes and tokenizes as before, and can draft."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from omnidraft.__main__ import main
from omnidraft.backends.gguf.convert import convert_folder
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.errors import ModelError
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.answering import PLAIN, answered, loaded
from tests.backends.hf_folders import change_config, write_folder
from tests.backends.spm_tokenizers import invent_pieces, write_json

SETTINGS = ModelSettings(n_ctx=512, threads=1)
TEXTS = (
    "Hello there, how are you today?",
    "  two spaces,\ttabs\n\n\nand lines ",
    "naïve 中文 😀 \u0000 №½",
    "for i in range(10):\n        print(i * 33)",
    "<s> is text </s> here <0x41>",
)


@pytest.fixture(scope="module")
def llama_68m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in the shape of JackFram/llama-68m; config.json names odd ends, as that one's does."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("hub") / "llama-68m"
    config = transformers.LlamaConfig(
        hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=3072, vocab_size=32000,
        max_position_embeddings=2048, bos_token_id=0, eos_token_id=2, pad_token_id=1, rms_norm_eps=1e-6,
        initializer_range=0.03, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    write_json(folder, invent_pieces(32000))
    return folder


@pytest.fixture(scope="module")
def expected(llama_68m: Path) -> tuple[list[int], np.ndarray]:
    """(ids, transformers' logits behind each)."""
    return logits_of(llama_68m)


def logits_of(folder: Path) -> tuple[list[int], np.ndarray]:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = np.random.default_rng(1).integers(3, model.config.vocab_size - 20, 48).tolist()
    with torch.no_grad():
        return ids, model(torch.tensor([ids])).logits[0].numpy()


@pytest.mark.parametrize(("dtype", "tolerance"), [("F32", 1e-2), ("Q8_0", 0.2)])
def test_logits_agree_with_torch(llama_68m: Path, expected, tmp_path: Path, dtype: str, tolerance: float):
    path = convert_folder(llama_68m, tmp_path / "drafter.gguf", dtype)
    info = read_info(path)
    assert (info.title, info.quantization, info.layers, info.width, info.heads) == ("llama-68m", dtype, 2, 768, 12)
    assert info.parameters == pytest.approx(68e6, rel=0.01)
    assert not info.tied
    ids, logits = expected
    with LlamaDrafter.open(path, SETTINGS) as drafter:
        ours = drafter.extend(ids, 48)
        assert logits.std() > 0.5
        print(f"{dtype}: largest difference {np.abs(ours - logits).max():.1e}, spread {logits.std():.2f}")
        np.testing.assert_allclose(ours, logits, atol=tolerance)


def test_text_round_trips_and_is_cut_alike(llama_68m: Path, tmp_path: Path):
    ours = read_gguf_vocabulary(convert_folder(llama_68m, tmp_path / "v.gguf", "F16"))
    original = read_tokenizer_json(llama_68m / "tokenizer.json")
    assert (ours.size, ours.bos, ours.eos, ours.add_bos) == (32000, 1, 2, True)
    assert ours.pieces == original.pieces
    for text in TEXTS:
        ids = ours.encode(text)
        assert ours.decode(ids).decode() == text
        assert ids == original.encode(text)
        assert ours.encode(text, at_start=True) == original.encode(text, at_start=True)


def test_a_plain_and_a_tied_and_a_grouped_folder(tmp_path: Path):
    for name, settings in {
        "plain": {"padding": 0},
        "tied": {"tie_word_embeddings": True},
        "wide heads": {"head_dim": 32},
        "stretched": {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}},
        "llama 3": {
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
            }
        },
    }.items():  # fmt: skip
        folder = write_folder(tmp_path / name, **settings)
        ids, logits = logits_of(folder)
        path = convert_folder(folder, tmp_path / f"{name}.gguf", "F32")
        with LlamaDrafter.open(path, SETTINGS) as drafter:
            assert drafter.info.tied == (name == "tied"), name
            assert drafter.info.chat_template
            np.testing.assert_allclose(drafter.extend(ids, 48), logits, atol=2e-2, err_msg=name)
            original = read_tokenizer_json(folder / "tokenizer.json")
            assert drafter.vocabulary.fingerprint == original.fingerprint, name


def test_import_on_the_command_line_makes_a_drafter(llama_68m, models, tmp_path, capsys):
    arguments = ["models", "import", "--data-dir", str(tmp_path), str(llama_68m), "--dtype", "q8_0"]
    assert main(arguments) == 0
    path = tmp_path / "models" / "llama-68m-q8_0.gguf"
    assert str(path) in capsys.readouterr().out
    assert main(arguments) == 2
    assert "--force" in capsys.readouterr().err
    sampling, fixed = SamplingSettings(temperature=0, max_tokens=16), DraftSettings(mode="fixed", length=3)
    with loaded(tmp_path, models / "tiny-target-b-f16.gguf", path) as assistant:
        (plain, _), (drafted, done) = (answered(assistant, "Hi.", sampling, draft) for draft in (PLAIN, fixed))
    assert drafted == plain
    assert done.statistics.drafted > 10


def refusal(folder: Path, out: Path) -> str:
    with pytest.raises(ModelError) as caught:
        convert_folder(folder, out)
    assert not out.exists()
    assert not [path for path in out.parent.iterdir() if path.suffix == ".gguf-part"]
    return str(caught.value)


def test_folders_that_cannot_be_imported_are_refused(tmp_path: Path):
    out = tmp_path / "out.gguf"
    folder = write_folder(tmp_path / "good")

    def changed(**values: object) -> Path:
        copy = Path(shutil.copytree(folder, tmp_path / "changed", dirs_exist_ok=True))
        change_config(copy, **values)
        return copy

    assert "'qwen2'" in refusal(changed(model_type="qwen2"), out)
    assert "gelu" in refusal(changed(model_type="llama", hidden_act="gelu"), out)
    assert "yarn" in refusal(changed(hidden_act="silu", rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}), out)
    plain = {"rope_type": "default", "rope_theta": 1e4}
    assert "lack" in refusal(changed(rope_parameters=plain, num_hidden_layers=3), out)
    assert "no place" in refusal(changed(num_hidden_layers=1), out)
    broken = changed(num_hidden_layers=2)
    tokenizer = json.loads((broken / "tokenizer.json").read_text())
    tokenizer["model"] = {"type": "WordLevel", "vocab": tokenizer["model"]["vocab"], "unk_token": "a"}
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "byte-pair" in refusal(broken, out)
    (broken / "tokenizer.json").unlink()
    assert "no tokenizer file" in refusal(broken, out)
