"""`bench idle` on the real models."""

from __future__ import annotations

import json

import pytest

from omnidraft.__main__ import main


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_part_is_measured(tmp_path, capsys):
    arguments = ["--regime", "bundled", "--pairs", "2", "--max-tokens", "8", "--threads", "1", "--json"]
    assert main(["bench", "idle", "--data-dir", str(tmp_path), *arguments]) == 0
    found = {line["what"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert list(found) == ["train", "slowdown"]
    assert found["train"]["gone_after"]
    assert found["train"]["cpu_seconds"] > 0
    assert found["slowdown"]["median_ratio"] > 0
