"""Whatever runs a target: `tokens` and its cache stay equal, whatever is asked of it and whatever goes wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.base import N_BATCH, LanguageModel
from omnidraft.backends.hf import target as hf_target
from omnidraft.backends.hf.target import HfTarget
from omnidraft.backends.llama import context
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings
from tests.backends.hf_folders import write_folder
from tests.backends.tiny_models import ids_of

SETTINGS = ModelSettings(n_ctx=512, threads=1, device="cpu")
TOLERANCE = 0.03  # kernels for one row and for several round differently; the logits spread over about 10
SHORT = 64  # ids of a pass, but in the process of its own
KINDS = ["llama.cpp", "llama.cpp, the drafter's file", "a folder", "a process of its own"]


@pytest.fixture(scope="module", autouse=True)
def short_passes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "N_BATCH", SHORT)
        patch.setattr(hf_target, "N_BATCH", SHORT)
        yield


@pytest.fixture(scope="module", params=KINDS)
def opening(request, models: Path, tmp_path_factory) -> Callable[[], LanguageModel]:
    """Opens a target of this kind."""
    target, drafter = models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"
    if request.param == "a folder":
        folder = write_folder(tmp_path_factory.mktemp("models") / "tiny random")
        return lambda: HfTarget.open(folder, SETTINGS)
    if request.param == "a process of its own":
        return lambda: TargetProcess(target, SETTINGS)
    file = target if request.param == "llama.cpp" else drafter
    return lambda: LlamaTarget.open(file, SETTINGS, max_rows=32)


@pytest.fixture(scope="module")
def opened(opening) -> Iterator[LanguageModel]:
    target = opening()
    yield target
    target.close()


@pytest.fixture
def target(opened: LanguageModel) -> LanguageModel:
    opened.rewind(0)
    return opened


def test_it_is_a_language_model(target: LanguageModel):
    assert isinstance(target, LanguageModel)
    assert target.n_ctx == 512
    assert target.n_batch in (SHORT, N_BATCH)
    assert target.can_rewind
    assert target.cannot_rewind_reason is None


def test_rows_of_one_pass_equal_single_passes(target: LanguageModel):
    ids = ids_of(target, 40)
    single = np.stack([target.extend([id], 1)[0].copy() for id in ids])
    target.rewind(0)
    together = [target.extend(ids[start : start + 8], 8).copy() for start in range(0, 40, 8)]
    assert single.std() > 0.5
    assert single.shape == (40, target.vocabulary.size)
    np.testing.assert_allclose(np.concatenate(together), single, atol=TOLERANCE)
    assert target.extend(ids_of(target, 3), 0).shape == (0, target.vocabulary.size)


@pytest.mark.parametrize(("count", "rows"), [(64, 64), (65, 1), (200, 100)])
def test_long_prompts_are_read_in_batches_and_only_the_last_rows_given(target: LanguageModel, count: int, rows: int):
    ids = ids_of(target, count)
    logits = target.extend(ids, rows).copy()
    assert logits.shape == (rows, target.vocabulary.size)
    assert target.tokens == ids
    target.rewind(count - rows)
    single = np.stack([target.extend([id], 1)[0].copy() for id in ids[count - rows :]])
    np.testing.assert_allclose(logits, single, atol=TOLERANCE)


def test_rewinding_and_reading_again_gives_the_same_logits(target: LanguageModel):
    ids = ids_of(target, 300)
    first = target.extend(ids, 20).copy()
    for length in (295, 280, 17):
        target.rewind(length)
        target.extend(ids_of(target, 7), 1)
        target.rewind(length)
        assert target.tokens == ids[:length]
        again = target.extend(ids[length:], min(20, 300 - length))
        np.testing.assert_allclose(again, first[-len(again) :], atol=TOLERANCE)


def test_a_full_context_bad_ids_and_impossible_lengths_change_nothing(target: LanguageModel):
    ids = ids_of(target, 510)
    target.extend(ids, 0)
    with pytest.raises(ModelError, match="full"):
        target.extend([1, 2, 3], 1)
    with pytest.raises(ModelError):
        target.extend([target.vocabulary.size], 1)
    with pytest.raises(ValueError, match="3 rows"):
        target.extend([1], 3)
    for length in (-1, 511):
        with pytest.raises(ValueError, match="rewind"):
            target.rewind(length)
    assert target.tokens == ids
    assert target.extend([1, 2], 2).shape[0] == 2


def test_closing_twice_is_harmless_and_use_afterwards_is_refused(opening):
    target = opening()
    target.extend([1], 1)
    target.close()
    target.close()
    with pytest.raises(ModelError, match="closed"):
        target.extend([1], 1)
    target.abort()
