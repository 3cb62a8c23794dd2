"""Targets whose memory is more than keys and values take tokens back too, exactly, by the way their kind allows."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama import rewind as rewinding
from omnidraft.backends.llama.model import LlamaDrafter, LlamaTarget
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings, SamplingSettings
from tests.answering import loaded, same_with_drafter

SETTINGS = ModelSettings(n_ctx=512, threads=1)
METHODS = {"mamba": "replay", "lfm2": "rollback", "qwen35": "rollback", "gemma3": "cut"}
TOLERANCE = 2e-2  # the logits spread over about 1.5; a wrong state moves them by 4 and more


@pytest.fixture(params=[*METHODS, "lfm2 without rollback", "qwen35 without rollback"])
def target(request, tiny_model, monkeypatch) -> Iterator[LlamaTarget]:
    name, _, without = request.param.partition(" ")
    if without:
        monkeypatch.setattr(rewinding, "ROLLBACK", 0)
    with LlamaTarget.open(tiny_model(name), SETTINGS, max_rows=32) as opened:
        assert opened.rewind_method == ("replay" if without else METHODS[name])
        yield opened


def some_ids(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(3, 300, count).tolist()


def reference(target: LlamaTarget, ids: list[int]) -> np.ndarray:
    """The logits behind every id, read one by one from an empty cache."""
    target.rewind(0)
    rows = np.stack([target.extend([id], 1)[0].copy() for id in ids])
    target.rewind(0)
    return rows


def test_rounds_of_drafting_leave_the_logits_of_reading_straight_through(target: LlamaTarget):
    ids = some_ids(200, seed=3)
    expected = reference(target, ids)
    random = np.random.default_rng(5)
    target.extend(ids[:20], 0)
    done = 20
    while done < 170:
        width = int(random.integers(1, 12))
        good = int(random.integers(1, width + 1))
        wrong = some_ids(width - good, seed=done)
        rows = target.extend([*ids[done : done + good], *wrong], width)
        np.testing.assert_allclose(rows[:good], expected[done : done + good], atol=TOLERANCE)
        done += good
        target.rewind(done)
        if random.random() < 0.2:  # further back, past the last pass
            done -= int(random.integers(1, 9))
            target.rewind(done)
        assert target.tokens == ids[:done]


def test_an_abort_while_tokens_are_read_again_keeps_both_sides_equal(tiny_model: Callable[[str], Path]):
    ids = some_ids(500)
    with LlamaTarget.open(tiny_model("mamba"), SETTINGS) as target:
        expected = reference(target, ids[:100])
        target.extend(ids, 0)
        outcome: list[object] = []

        def back() -> None:
            try:
                while True:
                    target.rewind(400)
                    target.extend(ids[400:], 0)
            except Aborted as error:
                outcome.append(error)

        reader = threading.Thread(target=back)
        reader.start()
        while reader.is_alive():
            target.abort()
        held = len(target.tokens)
        assert outcome
        assert target.tokens == ids[:held]
        target.rewind(min(held, 50))
        target.extend(ids[len(target.tokens) : 99], 0)
        np.testing.assert_allclose(target.extend(ids[99:100], 1)[0], expected[99], atol=TOLERANCE)


def test_a_recurrent_drafter_cannot_rewind_and_says_why(tiny_model: Callable[[str], Path]):
    with LlamaDrafter.open(tiny_model("mamba"), SETTINGS) as drafter:
        assert not drafter.can_rewind
        assert "recurrent" in drafter.cannot_rewind_reason
        drafter.extend(some_ids(40), 1)
        with pytest.raises(ModelError, match="recurrent"):
            drafter.rewind(10)
        drafter.rewind(0)  # starting over always works


@pytest.mark.parametrize("name", ["mamba", "qwen35"])
def test_the_text_is_the_same_with_and_without_drafter(tiny_model, name, models, tmp_path):
    settings = ModelSettings(n_ctx=256, threads=1)
    sampling = SamplingSettings(temperature=1.0, seed=5, max_tokens=40)
    with loaded(tmp_path, tiny_model(name), models / "tiny-drafter-f16.gguf", settings) as assistant:
        ends = same_with_drafter(assistant, ("t5t9", "t1 and t2", "t5t9"), sampling)
    assert all(end.draft_disabled_reason is None for end in ends)
    assert sum(end.statistics.proposed - end.statistics.accepted for end in ends) > 20
