"""What users of other programs that draft ran into, on real models: the same answers with drafts and without."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from omnidraft.app.assistant import Assistant
from omnidraft.app.conversing import messages_of
from omnidraft.backends.discovery import find_models
from omnidraft.chats import ChatStore
from omnidraft.decoding.events import Finished, Round, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.decoding.speculation import Guess, Speculation
from omnidraft.prompting.grammar import behind_thoughts, json_grammar
from omnidraft.prompting.prompt import RawText
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from omnidraft.vocab import Proposal
from tests.answering import PLAIN, answered, loaded
from tests.prompting.thinking_templates import OPENED
from tests.real import QWEN, SMOL, real_model
from tests.serving import serving

GREEDY = SamplingSettings(temperature=0.0, max_tokens=24)
EIGHT = DraftSettings(mode="fixed", length=8)
DRAFTS = (EIGHT, DraftSettings(), PLAIN)


@pytest.fixture(scope="module")
def smol(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Assistant]:
    """SmolLM2, and the drafter that comes with the program."""
    home = tmp_path_factory.mktemp("smol")
    with loaded(home, real_model(SMOL), models / "smol-drafter-q8_0.gguf", ModelSettings(n_ctx=512)) as assistant:
        yield assistant


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Assistant]:
    """The same with a context of 64."""
    home = tmp_path_factory.mktemp("narrow")
    with loaded(home, real_model(SMOL), models / "smol-drafter-q8_0.gguf", ModelSettings(n_ctx=64)) as assistant:
        yield assistant


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_an_end_that_is_accepted_in_the_middle_of_a_block_ends_the_answer(smol, monkeypatch, behind):
    ids, plain = answered(smol, "Hi", GREEDY, PLAIN)
    assert plain.reason == "stop"

    def guess(self, picker, position, room):
        """All that the target is going to say, and more."""
        said = [*ids[position:], *ids[:behind]][:room]
        return Guess([Proposal(token, "lookup", 0, 0) for token in said], 0, 0.0, 0.0)

    monkeypatch.setattr(Speculation, "guess", guess)
    events = list(smol.answer(AnswerRequest([{"role": "user", "content": "Hi"}], GREEDY, EIGHT)))
    tokens = [event for event in events if isinstance(event, Token)]
    block = [event for event in events if isinstance(event, Round)][-1]
    assert block.proposed == len(ids) - 1 + behind, "its end stands in the middle of one block"
    assert [token.id for token in tokens] == ids
    assert ids[-1] in smol.engine.target.model.vocabulary.eog
    assert (events[-1].reason, events[-1].text, tokens[-1].text) == ("stop", "", "")
    assert len(smol.engine.target.model.tokens) < events[-1].statistics.prompt_tokens + len(ids)
    monkeypatch.undo()
    assert answered(smol, "Hi", GREEDY, EIGHT)[0] == ids, "and the next answer stands on nothing else"


LAST = {"role": "user", "content": "What is gravity? " * 5}


@pytest.mark.parametrize("length", [8, 64])
def test_an_answer_to_a_prompt_that_nearly_fills_the_context_ends_with_it(narrow, length):
    ids = narrow.engine.target.model.vocabulary.encode("One two three four five six seven eight nine ten. " * 9)[:56]
    prompt = RawText.of_ids(ids, narrow.engine.target.model.vocabulary)
    found = []
    for draft in (replace(EIGHT, length=length), DraftSettings(), PLAIN):
        events = list(narrow.answer(AnswerRequest(prompt, replace(GREEDY, max_tokens=100), draft)))
        assert isinstance(events[-1], Finished)
        assert events[-1].reason == "context"
        assert len(narrow.engine.target.committed) == 65, "the last token needs no room: nothing is behind it"
        found.append([event.id for event in events if isinstance(event, Token)])
    assert found == [found[0]] * 3


def test_thoughts_that_end_inside_a_draft_are_followed_by_what_the_grammar_says(smol):
    vocabulary = smol.engine.target.model.vocabulary
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}}, "required": ["a"]}
    grammar = behind_thoughts(json_grammar(schema), ChatTemplate(OPENED, vocabulary))
    done = "<think>\nFine, I know what to do now.\n</think>\n\n"
    prompt = RawText(f'{done}{{"b": 1}}\n\n{done}{{"b": 2}}\n\n{done}{{"b": 3}}\n\n<think>\n')
    found, across = [], 0
    for draft in DRAFTS:
        request = AnswerRequest(prompt, replace(GREEDY, max_tokens=60), draft, grammar=grammar)
        events = list(smol.answer(request))
        found.append("".join(event.text for event in events if isinstance(event, Token)) + events[-1].text)
        across += any(event.proposed > event.accepted for event in events if isinstance(event, Round))
    assert across
    assert found == [found[0]] * 3
    thought, mark, answer = found[0].partition("</think>")
    assert mark, thought
    assert list(json.loads(answer)) == ["a"]


def drawn(assistant: Assistant, prompt: RawText, draft: DraftSettings, seeds: int) -> tuple[Counter, int]:
    """How often which two tokens came first, and how many proposals were accepted."""
    found, accepted = Counter(), 0
    for seed in range(seeds):
        sampling = SamplingSettings.unfiltered(temperature=1.0, top_p=0.9, max_tokens=4, seed=seed)
        events = list(assistant.answer(AnswerRequest(prompt, sampling, draft)))
        first, second, *_ = [event.id for event in events if isinstance(event, Token)]
        found[first, second] += 1
        accepted += events[-1].statistics.accepted
    return found, accepted


def nucleus(assistant: Assistant, ids: list[int]) -> dict[int, float]:
    """The target's distribution behind `ids` at T = 1 and top-p 0.9, computed the long way."""
    target = assistant.engine.target.model
    target.rewind(0)
    row = target.extend(ids, 1)[0].astype(np.float64)
    p = np.exp(row - row.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), 0.9)) + 1]
    return {int(token): float(p[token] / p[kept].sum()) for token in kept}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_second_token_is_drawn_from_the_targets_distribution(smol):
    """Behind each first token that came often: a chi-square over the second, all of them together."""
    prompt = RawText("The weather today is")
    found, accepted = drawn(smol, prompt, EIGHT, 2000)
    assert accepted > 200
    firsts = Counter()
    for (first, _), count in found.items():
        firsts[first] += count
    ids = prompt.prompt_ids(smol.engine.target.model.vocabulary)
    statistic = freedom = 0.0
    for first, count in firsts.items():
        expected = nucleus(smol, [*ids, first])
        seen = {second: number for (one, second), number in found.items() if one == first}
        assert set(seen) <= set(expected), "a token outside the nucleus"
        common = [second for second, p in expected.items() if p * count >= 5]
        pairs = [(seen.get(second, 0), expected[second] * count) for second in common]
        if len(common) < len(expected):
            pairs.append((count - sum(n for n, _ in pairs), count - sum(e for _, e in pairs)))
        if len(pairs) > 1 and min(e for _, e in pairs) > 1:
            statistic += sum((n - e) ** 2 / e for n, e in pairs)
            freedom += len(pairs) - 1
    p_value = float(stats.chi2.sf(statistic, freedom))
    print(f"{len(firsts)} first tokens, chi-square {statistic:.1f} of {freedom:.0f}, p = {p_value:.3f}")
    assert freedom > 10
    assert p_value > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("name", [SMOL, QWEN])
def test_acceptance_does_not_collapse_with_a_smaller_cache_or_a_shorter_context(tmp_path, models, name):
    rates = {}
    for kv_type, n_ctx in (("f16", 512), ("q8_0", 512), ("q4_0", 512), ("f16", 8192), ("q8_0", 8192)):
        settings = ModelSettings(n_ctx=n_ctx, kv_type=kv_type)
        with loaded(tmp_path, real_model(name), models / "smol-drafter-q8_0.gguf", settings) as pair:
            proposed = accepted = 0
            for asked in ("Count from 1 to 50, with commas between.", "Write a Python function that adds two numbers."):
                ids, end = answered(pair, asked, replace(GREEDY, max_tokens=60), EIGHT)
                assert ids == answered(pair, asked, replace(GREEDY, max_tokens=60), PLAIN)[0]
                proposed, accepted = proposed + end.statistics.proposed, accepted + end.statistics.accepted
            drafter = pair.engine.drafter.model.n_ctx
            rates[kv_type, n_ctx, drafter] = accepted / proposed
    print(name, {key: round(rate, 3) for key, rate in rates.items()})
    assert min(rates.values()) > 0.6 * max(rates.values())


def test_models_are_found_and_loaded_through_links_and_letters_of_every_kind(tmp_path, models):
    """By the name of their own, of a link to them, and in a folder that is one, below a name no code page has."""
    lies, home = tmp_path / "Mod\u00e8les \u65e5\u672c \U0001f600", tmp_path / "D\u00e4ten \u6570\u636e"
    lies.mkdir()
    home.mkdir()
    (lies / "\u0440\u0443\u0441.gguf").symlink_to(models / "tiny-target-a-f16.gguf")
    (tmp_path / "li\u00efnk").symlink_to(lies, target_is_directory=True)
    shutil.copy(models / "tiny-drafter-f16.gguf", lies / "dr\u00e4fter.gguf")
    found = []
    for target, drafter in (
        (models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"),
        (lies / "\u0440\u0443\u0441.gguf", lies / "dr\u00e4fter.gguf"),
        (tmp_path / "li\u00efnk" / "\u0440\u0443\u0441.gguf", tmp_path / "li\u00efnk" / "dr\u00e4fter.gguf"),
    ):
        with loaded(home, target, drafter, ModelSettings(threads=1)) as pair:
            for draft in (EIGHT, PLAIN):
                found.append(answered(pair, "Hello there", GREEDY, draft)[0])
    assert found == [found[0]] * 6
    names = [model.path.name for model in find_models([tmp_path / "li\u00efnk"])]
    assert sorted(names) == ["dr\u00e4fter.gguf", "\u0440\u0443\u0441.gguf"]


@pytest.mark.slow
def test_an_app_whose_temporary_folder_has_such_letters_answers(tmp_path):
    temporary = tmp_path / "t\u00e4mp \u4e34\u65f6"
    temporary.mkdir()
    with serving(tmp_path / "h\u00f6me \u043f", TMPDIR=str(temporary)) as app:
        for drafted in (True, False):
            body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "speculation": drafted}
            assert app.ask("POST", "/v1/chat/completions", body)[0] == 200


STRICT = (
    "{% for m in messages %}{% if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('must alternate') }}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_what_stopped_before_its_first_word_leaves_turns_that_a_strict_template_takes(smol, monkeypatch, tmp_path):
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create("Be brief.")
    for role, text in (("user", "What is gravity?"), ("assistant", ""), ("user", "And what is light?")):
        store.append(chat.id, role, text)
    stopped = messages_of(store.get(chat.id), store.path(chat.id))
    by_client = [{"role": "system", "content": "Be brief."}, LAST, LAST]
    empty = [LAST, {"role": "assistant", "content": ""}, LAST]
    target = smol.engine.target
    for template in (target.template, ChatTemplate(STRICT, target.model.vocabulary)):
        monkeypatch.setattr(target, "template", template)
        for messages in (stopped, by_client, empty):
            found = []
            for draft in (EIGHT, PLAIN):
                ids, end = answered(smol, messages, replace(GREEDY, max_tokens=8), draft)
                assert end.reason in ("stop", "length")
                found.append(ids)
            assert found[0] == found[1] != []
            read = target.model.vocabulary.decode(target.committed).decode()
            assert all(message["content"].strip() in read for message in messages if message["role"] != "assistant")
    store.close()
