"""Embeddings: the mean of the last hidden states, whatever the steps, and nothing of the answering cache touched."""

import llama_cpp
import numpy as np
import pytest

from omnidraft.app.embedding import NoEmbeddings, embed
from omnidraft.backends.base import Aborted, Embedding
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.errors import ContextFull, ModelError
from omnidraft.settings.config import ModelSettings
from tests.decoding import toys

LONG = "The weather in Paris is nice today, and the day after tomorrow is a Monday. " * 12
NEVER = lambda: False  # noqa: E731


@pytest.fixture(scope="module")
def target(models):
    with LlamaTarget.open(models / "tiny-target-a-f16.gguf", ModelSettings(threads=1, n_ctx=512)) as opened:
        yield opened


def test_they_are_the_mean_of_the_last_hidden_states(target, models):
    """Against llama-cpp-python's own class, which gives a row per token where nothing is pooled."""
    reference = llama_cpp.Llama(
        str(models / "tiny-target-a-f16.gguf"), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=1,
        pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, verbose=False,
    )  # fmt: skip
    for text in ("Hello there.", LONG):
        ids = reference.tokenize(text.encode())
        rows = np.array(reference.embed(text, normalize=False))
        assert len(rows) == len(ids)
        found = target.embed([ids], NEVER)[0]
        np.testing.assert_allclose(found, rows.mean(axis=0), atol=2e-3 * np.abs(rows).max())
    reference.close()


def test_texts_do_not_see_each_other_and_the_cache_stays(target):
    ids = [target.vocabulary.encode(text, at_start=True) for text in ("Good morning.", LONG[:300], "Two plus two.")]
    target.rewind(0)
    target.extend(ids[0], 0)
    expected = target.extend([5], 1).copy()
    target.rewind(len(ids[0]))
    together = target.embed(ids, NEVER)
    alone = np.stack([target.embed([one], NEVER)[0] for one in ids])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert target.tokens == ids[0]
    np.testing.assert_array_equal(target.extend([5], 1), expected)


def test_an_interruption_ends_it_and_the_next_request_works(target):
    with pytest.raises(Aborted):
        target.embed([[5, 6], [7]], lambda: True)
    with pytest.raises(ModelError, match="given up"):
        embed(target, ["Hello"], lambda: True)
    assert embed(target, ["Hello"], NEVER)[1] > 0


def test_what_is_too_long_or_unknown_is_refused(target):
    with pytest.raises(ContextFull, match="in parts"):
        embed(target, ["fine", LONG * 20], NEVER)
    with pytest.raises(ContextFull):
        embed(target, ["x" * 10_000_000], NEVER)
    with pytest.raises(NoEmbeddings, match="that the model does not know"):
        embed(target, [[target.vocabulary.size]], NEVER)


def test_a_target_that_cannot_says_so():
    model = toys.target()
    assert not isinstance(model, Embedding)
    with pytest.raises(NoEmbeddings, match="choose another model"):
        embed(model, ["a"], NEVER)
