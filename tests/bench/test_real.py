"""`bench real` against a stand-in for the Hub and the viewer of its data sets: fetched, timed, gone on with."""

from __future__ import annotations

import json

import pytest

from omnidraft.__main__ import main
from omnidraft.lab.prompts import load_prompts
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.ui.stub_hub import REPO, StubHub

FILES = ("tiny-target-b-f16.gguf", "tiny-drafter-f16.gguf")
SMALL = ["--seeds", "1", "--train-prompts", "8", "--train-tokens", "24", "--test-prompts", "2", "--test-tokens", "16",
         "--timed-prompts", "2", "--threads", "1"]  # fmt: skip


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    made = StubHub({name: (BUNDLED_MODELS / name).read_bytes() for name in FILES})
    sums = [{"question": f"What is {n} plus {n + 3}?"} for n in range(130)]
    made.rows = {
        ("openai/gsm8k", "train"): sums[:120],
        ("openai/gsm8k", "test"): sums[120:],
        ("google-research-datasets/mbpp", "train"): [{"text": f"Write a function called f{n}."} for n in range(9)],
        ("google-research-datasets/mbpp", "test"): [{"words": "a column of another name"}],
    }
    monkeypatch.setattr(constants, "ENDPOINT", made.endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", made.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", made.endpoint)
    yield made
    made.close()


def bench(tmp_path, hub, *more) -> int:
    target, drafter = (f"{REPO}:{name}" for name in FILES)
    models = ["--target", f"llama3={target}", "--drafter", drafter, "--rows", hub.endpoint]
    out = ["--out", str(tmp_path / "real.json"), "--markdown", str(tmp_path / "real.md")]
    return main(["bench", "real", "--data-dir", str(tmp_path), *models, *out, *SMALL, *more])


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute, and many times that beside other programs
def test_a_pair_is_fetched_learned_and_timed_beside_what_was_published_and_gone_on_with(tmp_path, hub, capsys):
    folder = tmp_path / "models"
    folder.mkdir()
    began = hub.files[FILES[0]][:4096]  # of a run that was interrupted
    (folder / f"{FILES[0]}.part").write_bytes(began)
    assert bench(tmp_path, hub, "--tasks", "gsm8k") == 0
    assert hub.ranges == [0, len(began)]
    rows = {row["condition"]: row for row in json.loads((tmp_path / "real.json").read_bytes())["rows"]}
    assert list(rows) == ["direct", "cache", "dm", "hybrid", "projected"]
    assert rows["hybrid"]["paper"] == [0.42, 1.7]
    assert rows["hybrid"]["paper_lora"] == [0.37, 1.59]
    assert rows["projected"]["paper"] is None
    for name in ("direct", "dm", "hybrid", "projected"):
        assert (rows[name]["same"], rows[name]["asked"]) == (4, 4)  # two prompts, two ways
        assert rows[name]["speedup"]["adaptive"]["mean"] > 0
    assert rows["dm"]["training_cpu"] > 0
    assert "0.42, 1.70 (0.37, 1.59)" in (tmp_path / "real.md").read_text()
    asked = load_prompts(tmp_path / "real.cells" / "prompts" / "gsm8k.jsonl", split="train")
    assert [prompt.text for prompt in asked] == [f"What is {n} plus {n + 3}?" for n in range(8)]

    before = (tmp_path / "real.json").read_bytes()
    hub.files, hub.rows = {}, {}
    assert bench(tmp_path, hub, "--tasks", "gsm8k") == 0
    assert (tmp_path / "real.json").read_bytes() == before
    assert bench(tmp_path, hub, "--tasks", "gsm8k,alpaca") == 2
    assert "The Hub answered with an error (404)" in capsys.readouterr().err


def test_what_the_viewer_does_not_have_is_said_and_nothing_is_learned(tmp_path, hub, capsys):
    drafter = str(BUNDLED_MODELS / FILES[1])
    assert bench(tmp_path, hub, "--drafter", drafter, "--tasks", "code") == 2
    assert "mbpp has other columns than it had: 'text'" in capsys.readouterr().err
    assert bench(tmp_path, hub, "--drafter", drafter, "--tasks", "sums") == 2
    assert "There are no prompts called sums" in capsys.readouterr().err
    assert not list(tmp_path.glob("real.cells/*/answers.json"))
