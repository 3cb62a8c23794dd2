"""Conversations with pictures on random models of three families: the same text with and without drafter, whatever
of the cache is used again, and sentences where a model cannot see."""

import pytest

from omnidraft.backends.llama.eyes import MOST_PICTURES
from omnidraft.backends.llama.model import LlamaDrafter, LlamaTarget
from omnidraft.backends.pictures import FIRST
from omnidraft.decoding.events import Notice, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.errors import ContextFull, PictureError
from omnidraft.prompting.prompt import mark, prompt_ids, unseen, with_pictures
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache
from tests.backends.seeing import PROJECTORS, needs_eyes, noise, vision_model
from tests.backends.tiny_models import MODELS

PLAIN, FIXED = DraftSettings(enabled=False), DraftSettings(mode="fixed", length=3)
SETTINGS = ModelSettings(n_ctx=512, threads=1)
TEMPLATE = "{% for m in messages %}{{ m['role'][0] }}: {{ m['content'] }}\n{% endfor %}a:"


@pytest.fixture(params=PROJECTORS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def make_engine(write_gguf, tmp_path):
    """make_engine(kind, drafts, sees) -> an engine on a random model, with another random one as its drafter."""
    engines = []

    def make(kind: str, drafts: bool = True, sees: bool = True, settings: ModelSettings = SETTINGS) -> Engine:
        model, projector = vision_model(tmp_path / kind, kind, max(512, settings.n_ctx))
        target = LlamaTarget.open(model, settings)
        engine = Engine(target, ChatTemplate(TEMPLATE, target.vocabulary))
        engines.append(engine)
        if sees:
            target.open_eyes(projector)
        if drafts:
            small = LlamaDrafter.open(write_gguf("drafter.gguf", *MODELS["llama"](7)), SETTINGS)
            pair = PairMap.build(small.vocabulary, target.vocabulary, None)
            translator = Translator(pair, NgramCache.open(None, pair, CacheSettings()))
            engine.pair_drafter(small, ChatTemplate(TEMPLATE, small.vocabulary), translator)
        return engine

    yield make
    for engine in engines:
        engine.target.model.close()
        if engine.drafter is not None:
            engine.drafter.model.close()


def asked(text: str, *pictures: int) -> dict:
    return {"role": "user", **with_pictures(text, [noise(seed) for seed in pictures])}


def said(text: str = "so") -> dict:
    return {"role": "assistant", "content": text}


CONVERSATIONS = {
    "at the start": [asked("what", 1)],
    "asked twice": [asked("what", 1), said(), asked("and why")],
    "in the middle": [asked("hello"), said(), asked("see", 1), said(), asked("well")],
    "two in one message": [asked("compare", 1, 2)],
    "twice the same": [asked("compare", 1, 1), said(), asked("again", 1)],
    "edited before": [asked("hallo"), said(), asked("see", 1), said(), asked("well")],
    "edited behind": [asked("what", 1), said(), asked("and how")],
    "another picture": [asked("what", 2), said(), asked("and how")],
    "without": [asked("what")],
    "at the start again": [asked("what", 1)],
    "answered anew": [asked("what", 1)],
    "answered anew later": [asked("what", 1), said(), asked("and how")],
    "at the end": [asked("hello"), said(), asked("well"), said(), asked("see", 3)],
    "one in every turn": [asked("see", 4), said(), asked("see", 5), said(), asked("see", 6)],
    "the second of them edited": [asked("see", 4), said(), asked("see", 7), said(), asked("see", 6)],
    "the second of them taken out": [asked("see", 4), said(), asked("look"), said(), asked("see", 6)],
    "words of the first edited": [asked("look", 4), said(), asked("see", 5), said(), asked("well")],
    "three in one message": [asked("compare", 1, 2, 3), said(), asked("and why")],
    "exchanged": [asked("compare", 2, 1, 3), said(), asked("and why")],
    "nothing but a picture": [asked("", 8)],
}  # fmt: skip


def answer(engine: Engine, messages: list, draft: DraftSettings, temperature: float, seed: int = 3):
    sampling = SamplingSettings(temperature=temperature, seed=seed, max_tokens=20)
    events = list(engine.answer(AnswerRequest(messages, sampling, draft)))
    return [event.id for event in events if isinstance(event, Token)], events[-1].statistics


def stopped_behind_a_picture(engine: Engine, messages: list) -> None:
    """Ask, and stop as soon as a picture is read; the first token at the latest."""
    for event in engine.answer(AnswerRequest(messages, SamplingSettings(temperature=0.0), FIXED)):
        if isinstance(event, Token) or any(id >= FIRST for id in engine.target.model.tokens):
            engine.cancel()
    assert event.reason == "cancelled"


@needs_eyes
def test_the_same_text_with_and_without_drafter_and_cache(make_engine, kind):
    plain, drafting = make_engine(kind, drafts=False), make_engine(kind)
    proposed = 0
    for seed, messages in enumerate(CONVERSATIONS.values()):
        plain.forget()
        expected, _ = answer(plain, messages, PLAIN, 1.0, seed)
        if seed % 4 == 3:
            stopped_behind_a_picture(drafting, messages)
        ids, statistics = answer(drafting, messages, FIXED, 1.0, seed)
        assert ids == expected
        proposed += statistics.proposed
    assert proposed > 20


@needs_eyes
def test_turns_with_pictures_are_left_out_where_the_context_is_full(make_engine, kind):
    engine = make_engine(kind, settings=ModelSettings(n_ctx=256, threads=1))
    messages = [part for turn in range(8) for part in (asked("see", turn), said())] + [asked("well", 9)]
    sampling = SamplingSettings(temperature=0.0, max_tokens=8)
    events = list(engine.answer(AnswerRequest(messages, sampling, FIXED)))
    assert any(isinstance(event, Notice) and "left out" in event.text for event in events)
    assert len(engine.target.model.tokens) <= 256
    with pytest.raises(ContextFull):
        list(engine.answer(AnswerRequest([asked("all", *range(20))], sampling, FIXED)))


@needs_eyes
def test_of_very_many_pictures_the_last_are_seen(make_engine):
    engine = make_engine("gemma3", settings=ModelSettings(n_ctx=4096, threads=1))
    sampling = SamplingSettings(temperature=0.0, max_tokens=4)
    messages = [part for turn in range(MOST_PICTURES + 4) for part in (asked("see", turn), said())] + [asked("well")]
    events = list(engine.answer(AnswerRequest(messages, sampling, FIXED)))
    assert any(isinstance(event, Notice) and "last 32 pictures" in event.text for event in events)
    starts = {id for id in engine.target.committed if id in engine.target.model.eyes._stretches}
    assert len(starts) == MOST_PICTURES
    with pytest.raises(PictureError, match="ask about fewer"):
        answer(engine, [asked("all", *range(MOST_PICTURES + 1))], FIXED, 0.0)


def test_nobody_types_a_mark(write_gguf):
    """A mark of another process, or of a picture that the message does not have, is text."""
    target = LlamaTarget.open(write_gguf("text.gguf", *MODELS["llama"]()), SETTINGS)
    template = ChatTemplate(TEMPLATE, target.vocabulary)
    typed = mark(noise(1)).replace("picture ", "picture 0", 1)
    ids = prompt_ids(template, target.vocabulary, [{"role": "user", "content": typed}], lambda picture: [FIRST])
    assert max(ids) < FIRST
    assert mark(noise(1)) not in str(unseen([asked("what", 1)]))
    target.close()
