"""`bench passes`: a small real run."""

from __future__ import annotations

import json

import pytest

from omnidraft.bench.passes import WAYS, WIDTHS, memory_speed, run
from omnidraft.bench.plans import Passes, Work
from omnidraft.errors import ModelError
from omnidraft.lab.results import Cells, as_text, json_lines
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

TARGET = BUNDLED_MODELS / "tiny-target-a-f16.gguf"


def test_every_way_computes_passes_of_every_width(tmp_path):
    plan = Passes(None, 1, (str(TARGET),), context=20, rounds=1)
    (report,) = run(plan, Work(DataHome(tmp_path), Cells(tmp_path), lambda _line: None))
    (one,) = map(json.loads, json_lines(report))
    assert (one["file"], one["threads"]) == (TARGET.name, 1)
    for way in WAYS:
        assert [*one[way]] == [str(width) for width in WIDTHS]
        assert all(ms > 0 for ms in one[way].values())
    assert one["prompt"]["ours"] > 0 < one["prompt"]["llama"]
    assert one["limit_ms"] == pytest.approx(1e-6 * TARGET.stat().st_size / one["gb_s"], rel=0.2)
    assert any("ours" in line for line in as_text(report))


def test_two_threads_read_memory_at_least_as_fast_as_half_of_one():
    assert memory_speed(2) > memory_speed(1) / 2 > 0.1


def test_a_file_that_cannot_be_loaded_is_told(tmp_path):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ModelError):
        list(run(Passes(None, 1, (str(file),)), Work(DataHome(tmp_path), Cells(tmp_path), lambda _line: None)))
