"""What must hold through every template: the same text as transformers, calls and results, and that
typed markers stay text."""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from omnidraft.decoding.events import Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.prompting.prompt import prompt_ids
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.backends.hf_folders import add_tokens, write_tokenizer
from tests.fakes import ToyModel
from tests.prompting.every_template import MARKER, each_template, source
from tests.prompting.following import text

CHAT = [
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Tell me a joke."},
]
WORD = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string", "description": "A word."}}}
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Looks it up.", "parameters": WORD}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "Oslo"}'}}
CALLED = [
    {"role": "user", "content": "What is Oslo?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "look_up", "content": "A capital."},
    {"role": "assistant", "content": "It is a capital."},
    {"role": "user", "content": "And Rome?", "tools": [TOOL]},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path, controls=())
    return path


@pytest.fixture(scope="module")
def vocabulary(folder: Path) -> Vocabulary:
    return read_tokenizer_json(folder / "tokenizer.json")


@cache
def template_of(name: str, vocabulary: Vocabulary) -> ChatTemplate:
    return ChatTemplate(source(name), vocabulary)


@each_template
def test_a_plain_chat_is_what_transformers_makes_of_it(name: str, vocabulary: Vocabulary):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    template = source(name)
    try:
        (expected,), _ = utils.render_jinja_template(
            [CHAT], chat_template=template, add_generation_prompt=True, bos_token="", eos_token="", unk_token="",
        )  # fmt: skip
    except Exception as error:  # whatever the template trips over there
        pytest.skip(f"transformers refuses it: {error}")
    assert text(template_of(name, vocabulary), CHAT) == expected


@each_template
def test_a_call_its_result_and_the_next_question_are_written(name: str, vocabulary: Vocabulary):
    template = template_of(name, vocabulary)
    written = text(template, CALLED)
    assert written.index("Oslo") < written.index("A capital.") < written.index("And Rome?")


@each_template
def test_thoughts_of_earlier_turns_are_treated_as_the_template_says(name: str, vocabulary: Vocabulary):
    """As in transformers, given in the field that the template reads; left out or as text where it reads none."""
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    template = template_of(name, vocabulary)
    field = template.form.field
    if field in ("", "content"):
        pytest.skip("the template knows no field for them")
    told = [CHAT[0], {**CHAT[1], field: "They greet."}, CHAT[2]]
    (expected,), _ = utils.render_jinja_template(
        [told], chat_template=source(name), add_generation_prompt=True, bos_token="", eos_token="", unk_token="",
    )  # fmt: skip
    assert text(template, [CHAT[0], {**CHAT[1], "reasoning_content": "They greet."}, CHAT[2]]) == expected


@each_template
def test_an_earlier_answer_keeps_its_own_ids_where_the_template_writes_it_again(name: str, vocabulary: Vocabulary):
    """Ids of an answer as a model may draw them: every character on its own."""
    template, (asked, said, then) = template_of(name, vocabulary), CHAT
    own = [token for character in said["content"] for token in vocabulary.encode(character)]
    spelled = {**said, KEY: Spelled(vocabulary.fingerprint, tuple(own))}
    following, rendered = prompt_ids(template, vocabulary, [asked, spelled, then]), text(template, CHAT)
    assert vocabulary.decode(following).decode() == rendered
    places = [at for at in range(len(following)) if following[at : at + len(own)] == own]
    assert len(places) == rendered.count(said["content"])
    assert text(template, [asked, spelled, then]) == rendered


MEANT = ("Hi", "What is 2+2?", "a", "", "  two  spaces ", "Grüße, 中文 😀", "```py\nprint('<x>')\n```", '{"a": [1, 2]}')


def words(rng: random.Random, markers: Sequence[str]) -> str:
    """What somebody may type, the template's own markers and whole turns in its form among it."""
    return "".join(rng.choice([*MEANT, *markers, "\n", " "]) for _ in range(rng.randrange(1, 6))) or "."


@each_template
def test_a_prompt_depends_on_the_conversation_alone(name: str, folder: Path, vocabulary: Vocabulary, tmp_path: Path):
    """Whatever was answered before, the same is read; typed markers stay text, and answers keep their own ids."""
    written = source(name).replace("+ datetime +", "+ 'now' +")  # one writes the second of the day into every prompt
    rendered = text(ChatTemplate(written, vocabulary), CHAT)
    found = {m for m in MARKER.findall(written) + MARKER.findall(rendered) if any(map(str.isalpha, m))}
    markers = tuple(sorted(found, key=len, reverse=True))
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    rng, turns = random.Random(name), []
    add_tokens(tmp_path, markers, special=True)
    vocabulary = read_tokenizer_json(tmp_path / "tokenizer.json")
    engine = Engine(ToyModel(vocabulary, drawn(vocabulary), n_ctx=60_000), ChatTemplate(written, vocabulary))

    def read(messages: list[dict]) -> tuple[list[int], list[int]]:
        asked = AnswerRequest(messages, SamplingSettings(temperature=1.5, seed=len(messages), max_tokens=6))
        *events, end = engine.answer(asked)
        prompt = engine.target.committed[: end.statistics.prompt_tokens]
        return prompt, [event.id for event in events if isinstance(event, Token)]

    for _ in range(4):
        turns.append({"role": "user", "content": words(rng, markers)})
        warm = read(turns)
        typed = [{"role": "user", "content": forged(text(engine.target.template, turns), turns[0]["content"])}]
        as_typed = read(typed)
        assert read(turns) == warm
        engine.forget()
        assert read(typed) == as_typed
        engine.forget()
        assert read(turns) == warm
        answer = warm[1]
        said = vocabulary.decode(answer).decode("utf-8", "replace")
        kept = {KEY: Spelled(vocabulary.fingerprint, tuple(answer))} if rng.random() < 0.5 else {}
        turns.append({"role": "assistant", "content": said or "-", **kept})


def drawn(vocabulary: Vocabulary) -> Callable[[tuple[int, ...]], np.ndarray]:
    """Logits of the ordinary tokens, fixed by the last ones."""

    def logits(history: tuple[int, ...]) -> np.ndarray:
        row = np.random.default_rng(history[-2:]).normal(0.0, 2.0, vocabulary.size)
        row[~vocabulary.ordinary] = -30.0
        return row

    return logits


def forged(rendered: str, first: str) -> str:
    """A first message that goes on as the whole conversation did."""
    return rendered[max(0, rendered.find(first.strip())) :]


@each_template
@pytest.mark.parametrize("special", [True, False], ids=["control", "user-defined"])
def test_typed_markers_stay_text(name: str, special: bool, folder: Path, vocabulary: Vocabulary, tmp_path: Path):
    """The prompt has the tokens of those markers that the template writes, and none of those somebody typed."""

    def chat(words: str) -> list[dict]:
        return [{"role": "user", "content": f"Say {words}."}, {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": f"{words} again"}]  # fmt: skip

    without_tokens = template_of(name, vocabulary)
    silent = without_tokens.thinking.get("off", {})  # some write markers only of thoughts that they leave out
    rendered = text(without_tokens.told(silent), chat("it"))
    found = MARKER.findall(source(name)) + MARKER.findall(rendered)  # some are put together there
    markers = tuple(sorted({marker for marker in found if any(map(str.isalpha, marker))}, key=len, reverse=True))
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    ids = add_tokens(tmp_path, markers, special=special)
    with_tokens = read_tokenizer_json(tmp_path / "tokenizer.json")
    template = ChatTemplate(source(name), with_tokens).told(silent)

    def written(words: str) -> Counter[int]:
        return Counter(token for token in prompt_ids(template, with_tokens, chat(words)) if token in ids.values())

    spelt = re.findall("|".join(map(re.escape, markers)), text(template, chat("it")))
    honest = Counter(ids[marker] for marker in spelt if marker)
    assert markers == () or honest
    assert written("it") == honest
    for marker in markers:
        assert written(marker) == honest, marker
    assert written(" and ".join(markers)) == honest
