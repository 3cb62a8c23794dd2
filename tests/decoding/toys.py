"""The toy pair the decoding tests share: a drafter of single letters, a target with merges of two and three."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from omnidraft.backends.base import LanguageModel
from omnidraft.decoding.drafting import Drafting, FixedLength
from omnidraft.decoding.events import Event
from omnidraft.decoding.loop import decode
from omnidraft.decoding.request import AnswerRequest, DecodeInput
from omnidraft.decoding.speculation import Speculation
from omnidraft.settings.config import CacheSettings, SamplingSettings
from omnidraft.vocab import PairMap, Translator, Vocabulary
from omnidraft.vocab.ngram_cache import NgramCache
from tests.fakes import ToyModel, random_logits, toy_vocabulary

TARGET = toy_vocabulary([b"a", b"b", b"c", b"ab", b"abc"], padding=2)
DRAFTER = toy_vocabulary([b"a", b"b", b"c"], padding=1)
PROMPT = [0, 1]


def translator(cached: bool = True) -> Translator:
    return translator_of(DRAFTER, cached)


def translator_of(drafter: Vocabulary, cached: bool = True) -> Translator:
    """From `drafter` to TARGET, with both of the target's merges in the n-gram cache."""
    pair = PairMap.build(drafter, TARGET, None)
    cache = NgramCache.open(None, pair, CacheSettings(seed=False)) if cached else None
    if cache is not None:
        for merged in (b"ab", b"abc"):
            cache.learn(TARGET.pieces.index(merged))
    return Translator(pair, cache)


def target(seed: int = 1, **more) -> ToyModel:
    return ToyModel(TARGET, random_logits(TARGET, seed), **more)


def drafter(seed: int = 2, **more) -> ToyModel:
    return ToyModel(DRAFTER, random_logits(DRAFTER, seed), **more)


def speculation(model: ToyModel, translate: Translator, length: int = 4) -> Speculation:
    return Speculation(Drafting(model, translate, [0, 1]), FixedLength(length))


def decoded(
    target: LanguageModel, prompt: Sequence[int], sampling: SamplingSettings, seed: int,
    speculation: Speculation | None = None, *, capture: int = 0, alternatives: int | None = None,
    bias: Mapping[int, float] | None = None, scores_prompt: bool = False, writes: bool = True, **given,
) -> Generator[Event, None, None]:  # fmt: skip
    """The answer behind a prompt of ids."""
    request = AnswerRequest(
        (), sampling, capture=capture, alternatives=alternatives, bias=bias or {}, scores_prompt=scores_prompt,
        writes=writes,
    )  # fmt: skip
    return decode(request, DecodeInput(target, list(prompt), seed, speculation, **given))
