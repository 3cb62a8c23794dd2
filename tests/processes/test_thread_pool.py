"""Threads that are done computing keep no helpers: with more of them than processors every pass waits for sleepers."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.llama.model import LlamaDrafter, LlamaTarget
from omnidraft.processes.threads import physical_cores, release_helpers
from omnidraft.settings.config import ModelSettings, SamplingSettings
from tests.decoding import toys

THREADS = 3
SETTINGS = ModelSettings(n_ctx=256, threads=THREADS)
TASKS = Path("/proc/self/task")

pytestmark = pytest.mark.skipif(
    not (TASKS.is_dir() and release_helpers()), reason="computing is not done with GNU OpenMP here"
)


def settled(expected: int) -> int:
    """The process's threads, given time to become `expected`: ended helpers take a moment to be gone."""
    end = time.monotonic() + 20
    while (count := sum(1 for _ in TASKS.iterdir())) != expected and time.monotonic() < end:
        time.sleep(0.01)
    return count


@pytest.fixture
def alone() -> int:
    """How many threads there are while nothing is computed."""
    release_helpers()
    time.sleep(0.1)
    return sum(1 for _ in TASKS.iterdir())


@pytest.fixture
def target(alone: int, models: Path) -> Iterator[LlamaTarget]:
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", SETTINGS) as opened:
        yield opened


def test_an_answer_leaves_no_helpers_whether_it_ends_or_is_left(alone: int, target: LlamaTarget):
    for last in (None, 3):
        events = toys.decoded(target, [5, 6, 7], SamplingSettings(temperature=0.0, max_tokens=8), 0)
        for number, _ in enumerate(events):
            if number == 2:
                assert settled(alone + THREADS - 1) == alone + THREADS - 1
            if number == last:
                break
        events.close()
        assert settled(alone) == alone


def test_a_small_drafter_steps_without_helpers_but_reads_a_prompt_with_them(alone: int, models: Path):
    cores = physical_cores()
    with LlamaDrafter.open(models / "tiny-drafter-f16.gguf", ModelSettings(n_ctx=256)) as drafter:
        drafter.extend([5, 6, 7], 1)
        drafter.extend([8], 1)
        assert settled(alone) == alone
        before = drafter.extend(list(range(5, 69)), 1)[0].copy()
        assert settled(alone + cores - 1) == alone + cores - 1
        drafter.rewind(4)
        for i in range(5, 69):
            row = drafter.extend([i], 1)[0]
        np.testing.assert_allclose(row, before, atol=0.03)
