"""`bench real` against a stand-in for the Hub's viewer of data sets: fetched, timed, gone on with."""

from __future__ import annotations

import json

import pytest

from omnidraft.__main__ import main
from omnidraft.lab.prompts import load_prompts
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.ui.stub_hub import StubHub

SMALL = ["--seeds", "1", "--train-prompts", "8", "--train-tokens", "24", "--test-prompts", "2", "--test-tokens", "16",
         "--timed-prompts", "2", "--threads", "1"]  # fmt: skip


@pytest.fixture
def hub():
    made = StubHub({})
    sums = [{"question": f"What is {n} plus {n + 3}?"} for n in range(130)]
    made.rows = {
        ("openai/gsm8k", "train"): sums[:120],
        ("openai/gsm8k", "test"): sums[120:],
        ("google-research-datasets/mbpp", "train"): [{"text": f"Write a function called f{n}."} for n in range(9)],
        ("google-research-datasets/mbpp", "test"): [{"words": "a column of another name"}],
    }
    yield made
    made.close()


def bench(tmp_path, hub, *more) -> int:
    models = ["--target", str(BUNDLED_MODELS / "tiny-target-b-f16.gguf"), "--rows", hub.endpoint]
    out = ["--out", str(tmp_path / "real.json")]
    return main(["bench", "real", "--data-dir", str(tmp_path), *models, *out, *SMALL, *more])


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute, and many times that beside other programs
def test_prompts_are_fetched_learned_from_and_timed_and_gone_on_with(tmp_path, hub, capsys):
    assert bench(tmp_path, hub, "--tasks", "gsm8k") == 0
    found = json.loads((tmp_path / "real.json").read_bytes())
    rows = {row["condition"]: row for row in found["rows"]}
    assert list(rows) == ["direct", "cache", "hybrid", "projected"]
    assert rows["hybrid"]["training_cpu"] > 0
    timed = {(row["condition"], row["method"]): row for row in found["timed"]}
    assert len(timed) == 3 * 3  # as it came and by two losses; plain, fixed and adaptive
    assert all(row["same"] == row["answers"] == 2 for row in timed.values())
    assert "projected  tiny-target-b-f16" in capsys.readouterr().out
    asked = load_prompts(tmp_path / "real.cells" / "prompts" / "gsm8k.jsonl", split="train")
    assert [prompt.text for prompt in asked] == [f"What is {n} plus {n + 3}?" for n in range(8)]

    before = (tmp_path / "real.json").read_bytes()
    hub.rows = {}
    assert bench(tmp_path, hub, "--tasks", "gsm8k") == 0
    assert (tmp_path / "real.json").read_bytes() == before
    assert bench(tmp_path, hub, "--tasks", "gsm8k,alpaca") == 2
    assert "The Hub answered with an error (404)" in capsys.readouterr().err


def test_what_the_viewer_does_not_have_is_said_and_nothing_is_learned(tmp_path, hub, capsys):
    assert bench(tmp_path, hub, "--tasks", "code") == 2
    assert "mbpp has other columns than it had: 'text'" in capsys.readouterr().err
    assert bench(tmp_path, hub, "--tasks", "sums") == 2
    assert "There are no prompts called sums" in capsys.readouterr().err
    assert not list(tmp_path.glob("real.cells/*/answers.json"))
