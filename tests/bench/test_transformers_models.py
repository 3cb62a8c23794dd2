"""A GGUF as a Hugging Face folder is the same model, and transformers assists with the two as it says it does."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.backends.gguf.convert import folder_vocabulary
from omnidraft.backends.opening import open_target
from omnidraft.bench.peers.peer import PLAIN, Models
from omnidraft.bench.transformers_models import ASSISTED, Transformers, export_folder
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings, SamplingSettings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary


@pytest.fixture(scope="module")
def folders(tmp_path_factory, models):
    out = tmp_path_factory.mktemp("folders")
    return {name: export_folder(models / f"tiny-{name}-f16.gguf", out / name) for name in ("target-a", "drafter")}


def test_vocabulary_and_logits_are_the_files(folders, models):
    file = models / "tiny-target-a-f16.gguf"
    vocabulary = read_gguf_vocabulary(file)
    assert folder_vocabulary(folders["target-a"]).fingerprint == vocabulary.fingerprint
    ids, found = vocabulary.encode("What is 12 plus 30?"), []
    for path in (file, folders["target-a"]):
        target = open_target(path, ModelSettings(threads=1))
        found.append(target.extend(ids, 2).copy())
        target.close()
    assert np.abs(found[0] - found[1]).max() < 0.02


def test_a_folder_appears_only_when_complete(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(ModelError, match=r"broken\.gguf"):
        export_folder(broken, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.gguf"]


def test_assisted_generation_says_what_plain_says(folders, models):
    target, drafter = models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"
    both = {"folder": folders["target-a"], "drafter_folder": folders["drafter"]}
    model = Transformers(Models(target, drafter, 1, 64, **both))
    prompt = read_gguf_vocabulary(target).encode("The first day of the week is")
    greedy = SamplingSettings.unfiltered(temperature=0.0, seed=1, max_tokens=16)
    plain, assisted = (model.bursts(way, prompt, greedy) for way in (PLAIN, ASSISTED))
    ids = lambda came: [id for part, _ in came for id in part]  # noqa: E731
    assert ids(plain) == ids(assisted)
    assert 1 <= len(ids(plain)) <= 16
    assert [at for _, at in plain] == sorted(at for _, at in plain)
    drawn = SamplingSettings.unfiltered(temperature=1.0, seed=1, max_tokens=16)
    assert ids(model.bursts(ASSISTED, prompt, drawn))
    model.close()
