"""Torch uses one thread in these tests: others share the machine."""

import os
import pickle
from pathlib import Path

import pytest
from filelock import FileLock

from omnidraft.bench.learn import records
from omnidraft.lab.experiment import Pair
from omnidraft.lab.prompts import load_prompts
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ExpansionTable
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from tests.learning.world import World


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def drafter(models) -> Path:
    return models / "tiny-drafter-f16.gguf"


@pytest.fixture(scope="session")
def answers(models, drafter, tmp_path_factory) -> tuple[list[Record], Path]:
    """40 answers of a bundled model and the expansion table they are read with; made once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    table, kept = folder / "table.npz", folder / "answers.pickle"
    with FileLock(folder / "answers.lock"):
        if not kept.exists():
            prompts = [(f"c{i}", p.messages) for i, p in enumerate(load_prompts("math")[:40])]
            home = DataHome(tmp_path_factory.mktemp("answers"))
            with Pair(home, models / "tiny-target-a-f16.gguf", drafter, ModelSettings(threads=1)) as pair:
                ExpansionTable.from_pair(pair.pair).save(table)
                made = records(pair, prompts, SamplingSettings.unfiltered(temperature=0.7), max_tokens=64)
                kept.write_bytes(pickle.dumps(list(made)))
    return pickle.loads(kept.read_bytes()), table


@pytest.fixture
def world(answers, drafter, tmp_path):
    return World(*answers, drafter, tmp_path)
