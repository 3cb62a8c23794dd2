"""Search on a stub Hub: what matches and may fit, what each file takes, drafters by their vocabularies alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from omnidraft.app import hub_fit
from omnidraft.app.hub import search
from omnidraft.app.hub_files import HubError, list_models
from omnidraft.app.models_list import context_of
from omnidraft.app.outlook import MORE
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.estimate import header_estimate
from omnidraft.decoding.cost import CostModel
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import BUNDLED_MODELS
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.ui.stub_hub import REPO

TARGET = BUNDLED_MODELS / "tiny-target-a-f16.gguf"
SETTINGS = replace(ModelSettings(), n_ctx=2048)


def test_a_search_lists_what_may_fit_most_downloaded_first(serve):
    hub = serve({})
    hub.listed = [
        {"id": "a/small", "downloads": 5, "gguf": {"total": 500_000_000, "architecture": "qwen3"}},
        {"id": "b/huge", "downloads": 900, "gguf": {"total": 70_000_000_000}},
        {"id": "c/unknown", "downloads": 50},
    ]
    found, hidden = search(" qwen ", free=4 << 30)
    assert [one.repo for one in found] == ["c/unknown", "a/small"]
    assert hidden == 1
    assert found[1].label() == "a/small · 500M · 5 downloads"
    (query,) = hub.queries
    assert (query["search"], query["sort"], query["filter"]) == (["qwen"], ["downloads"], ["gguf"])
    assert not any("authorization" in {name.lower() for name in headers} for headers in hub.headers)
    with pytest.raises(HubError, match="part of the model's name"):
        search("  ", None)


def test_files_are_judged_by_the_formula_that_refuses_a_load(serve, tmp_path):
    data = TARGET.read_bytes()
    hub = serve({"m-F16.gguf": data, "m-Q4.gguf": data + bytes(4 << 20)})
    found = hub_fit.fits(list_models(REPO), SETTINGS, tmp_path / "cache")
    info = read_info(TARGET)
    exact = header_estimate(info, SETTINGS, context_of(info, SETTINGS)).total
    small, large = found
    assert 0 <= small.memory - exact < 2 << 20  # the header's own bytes are counted with the weights
    assert large.memory - small.memory == 4 << 20
    assert hub_fit.best(found, small.memory) is small
    assert hub_fit.best(found, None) is large
    assert hub_fit.best(found, 1000) is None
    assert list((tmp_path / "cache").iterdir()) == []
    assert hub.ranges == [0]


def tokenizer(pieces: list[str]) -> bytes:
    made = Tokenizer(models.BPE(vocab={piece: n for n, piece in enumerate(pieces)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made.to_str().encode()


def compared(target, cache):
    return [hub_fit.compared(known, target, cache) for known in hub_fit.DRAFTERS]


def test_drafters_are_compared_by_their_vocabularies_alone(serve, tmp_path):
    hub = serve({})
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    few, many = (known.repo for known in hub_fit.DRAFTERS[:2])
    target = read_gguf_vocabulary(TARGET)
    known = [p.decode() for p in target.pieces if p.isalpha() and p.isascii() and len(p) > 1][:500]
    hub.tokenizers = {few: tokenizer(letters), many: tokenizer([*letters, *known])}
    found = hub_fit.ranked(compared(target, tmp_path))
    assert [one.known.repo for one in found][:2] == [many, few]
    assert found[0].share > found[1].share > 0
    assert "map directly" in found[0].label()
    assert found[2].share is None
    assert found[2].why
    asked = len(hub.headers)
    compared(target, tmp_path)
    assert len(hub.headers) == asked + 1  # what came is kept; only what did not is asked for again


def test_what_a_drafter_is_worth_follows_its_size_and_what_passes_take():
    small, large = hub_fit.DRAFTERS[:2]
    flat = CostModel({1: 0.1, 2: 0.1, 9: 0.1}, 0.01)
    steep = CostModel({1: 0.1, 2: 0.2, 9: 0.9}, 0.01)
    gains = [hub_fit.worth(known, 4_000_000_000, flat) for known in (small, large)]
    assert gains[0].step == pytest.approx(68 * 34 / 32 / 4000)
    assert 1.6 < gains[0].speedup < 2  # of every second guess: two tokens a pass at most
    assert gains[0].speedup < gains[1].speedup < 1 / (1 - MORE)  # larger ones guess better
    assert hub_fit.worth(small, 4_000_000_000, steep).speedup < 1  # not worth a guess
