"""Torch uses one thread in these tests: others share the machine."""

from pathlib import Path

import pytest

from omnidraft.bench.learn import records
from omnidraft.bench.pairs import Pair
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
    """40 answers of a bundled model and the expansion table they are read with."""
    folder = tmp_path_factory.mktemp("tables")
    table = folder / "table.npz"
    prompts = [(f"c{i}", p.messages) for i, p in enumerate(load_prompts("math")[:40])]
    with Pair(DataHome(folder), models / "tiny-target-a-f16.gguf", drafter, ModelSettings(threads=1)) as pair:
        ExpansionTable.from_pair(pair.pair).save(table)
        return list(records(pair, prompts, SamplingSettings.unfiltered(temperature=0.7), max_tokens=64)), table


@pytest.fixture
def world(answers, drafter, tmp_path):
    return World(*answers, drafter, tmp_path)
