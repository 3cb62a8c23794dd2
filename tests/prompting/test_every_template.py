"""What must hold through every template: the same text as transformers, calls and results, and that
typed markers stay text."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.prompting.prompt import prompt_ids
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.hf_vocab import read_tokenizer_json
from tests.backends.hf_folders import add_tokens, write_tokenizer
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
