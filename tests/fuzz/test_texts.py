"""Conversations, profiles, settings, prompts, requests, grammars, schemas and templates from a stranger."""

import json
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.chats import ChatStore, export_json, import_json
from omnidraft.lab.prompts import load_prompts
from omnidraft.prompting.grammar import check_grammar, gbnf_grammar, json_grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.server.api.body import json_body
from omnidraft.server.api.request import Chat, Text
from omnidraft.settings.config import AppSettings
from omnidraft.settings.file import load_settings, save_settings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.exports import elsewhere
from tests.fuzz.cases import ODD, as_json, damaged, fuzz, refused_at_most, several
from tests.prompting.formats.test_learned import TOOLS, WRITTEN, form
from tests.prompting.reading import format_of_source, read
from tests.server.test_api_fields import BODY as FIELDS
from tests.server.test_api_fields import FORMED

SEEDS = st.integers(0, 2**48).map(random.Random)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with ChatStore(tmp_path_factory.mktemp("chats") / "chats.sqlite") as made:
        chat = made.create(system="Be brief.")
        question = made.append(chat.id, "user", "What is 2 + 3?\n\n## not a heading")
        made.append(chat.id, "assistant", "5", meta={"seed": 1, "finish_reason": "stop"})
        made.edit(question.id, "What is 2 + 4?")
        yield made


@fuzz(60)
@given(SEEDS)
def test_conversations(store, by):
    exported = json.loads(export_json(store, [store.conversations()[-1].id]))
    data = as_json(several(exported, by))
    with refused_at_most():
        for chat in import_json(store, damaged(data, by) if by.random() < 0.2 else data)[0]:
            store.path(chat.id)
            export_json(store, [chat.id])
            store.delete(chat.id)


@fuzz(60)
@given(SEEDS)
def test_settings(tmp_path_factory, by):
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.unlink(missing_ok=True)
    save_settings(path, AppSettings())
    data = path.read_bytes()
    lines = data.split(b"\n")
    value = str(by.choice(ODD)).encode("utf-8", "replace")
    lines[by.randrange(len(lines))] = by.choice(
        [b"[model", b"a = ", b"[[x]]", b"threads = " + value, b"seed = '" + value]
    )
    path.write_bytes(b"\n".join(lines) if by.random() < 0.5 else damaged(data, by))
    with refused_at_most():
        load_settings(path)


@fuzz(60)
@given(SEEDS)
def test_prompt_files(tmp_path_factory, by):
    path = tmp_path_factory.getbasetemp() / by.choice(["p.jsonl", "p.txt", "p.json"])
    line = {"id": "1", "task": "t", "messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "answer": "x"}
    data = b"\n".join(as_json(several(line, by)) for _ in range(3))
    path.write_bytes(damaged(data, by) if by.random() < 0.3 else data)
    with refused_at_most():
        load_prompts(path)


BODY = FIELDS | {
    "prompt": ["a", "b"], "tool_choice": "auto", "enable_thinking": True, "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": False}, "response_format": FORMED["response_format"],
}  # fmt: skip


@fuzz(80)
@given(SEEDS)
def test_requests(by):
    session = SimpleNamespace(settings=AppSettings())
    kept = {name: value for name, value in BODY.items() if by.random() < 0.6}
    data = as_json(several(kept, by))
    data = damaged(data, by) if by.random() < 0.2 else data
    for kind in (Chat, Text):
        with refused_at_most():
            kind.read(json_body(data)).asked(session)


PIECES = [
    "root ::= ", "a ::= ", "\n", '"x"', "[a-z]", "[^\\n]", "(", ")", "|", "*", "+", "?", "{2,5}", "{5,2}", "{999999}",
    "a", "root", '"\\', "[", "]", "#c\n", " ", "\\u00e9", '"(((("', "{", "a0 ", "::=", "[\\x00-\\x7f]", ".", "😀",
    "(a|a)*",
]  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary(models):
    return read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")


@fuzz(80)
@given(SEEDS)
def test_grammars(vocabulary, by):
    text = (
        "root ::= "
        + by.choice(['"a"', '[a-z]+ "b"?', "(a | a) a\na ::= [^x]*", ""])
        + "".join(by.choice(PIECES) for _ in range(by.choice([0, 1, 2, 5, 40])))
    )
    if by.random() < 0.2:
        text += by.choice(PIECES) * by.choice([100, 20_000])
    with refused_at_most():
        grammar = gbnf_grammar(text)
        check_grammar(grammar)
        state = GrammarState(grammar, vocabulary)
        state.mask()
        state.forced()


SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "maxLength": 5, "pattern": "^[a-z]{2,3}$"},
        "b": {"type": "array", "items": {"$ref": "#/$defs/c"}, "maxItems": 3},
        "e": {"enum": [1, "x", None]},
        "f": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "g": {"type": "integer", "minimum": 0, "maximum": 99, "format": "date"},
    },
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"c": {"type": "object", "allOf": [{"$ref": "#"}]}},
}


@fuzz(60)
@given(SEEDS)
def test_schemas(by):
    schema = several(SCHEMA, by)
    if by.random() < 0.3:
        schema = {"type": "object", "properties": {"x": several(SCHEMA, by), "y": {"$ref": "#/properties/x"}}}
    with refused_at_most():
        check_grammar(json_grammar(schema))


PARTS = [
    "{{ messages }}", "{% for m in messages %}", "{% endfor %}", "{{ m.content }}", "{{ m.__class__ }}", "{% if x %}",
    "{% endif %}", "{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}", "{% set x = 'a' * 99999 %}",
    "{{ range(10**9) | list }}", "{{ x ~ x }}", "{% macro f(a) %}{{ f(a) }}{% endmacro %}", "{{ f(1) }}", "{{", "%}",
    "{{ bos_token }}", "{{ raise_exception('no') }}", "{{ messages | tojson }}", "{{ 7 ** 99999999 }}",
    "{{ m | attr('x') }}", "{{ '%s' % m }}", "{% include 'x' %}", "{% import 'os' as os %}", "{{ lipsum() }}",
    "{{ 1 / 0 }}", "{{ [][5] }}", "{{ (1).__add__ }}", "{{ messages[0]['content'].format(m) }}",
    "{% set ns = namespace() %}", "{% generation %}",
]  # fmt: skip


@fuzz(60)
@given(SEEDS)
def test_templates(vocabulary, by):
    source = "".join(by.choice(PARTS) for _ in range(by.randrange(1, 12)))
    if by.random() < 0.05:
        source = by.choice(["{{ (", "{% if 1 %}", "{{ -"]) * 3000
    with refused_at_most():
        template = ChatTemplate(source, vocabulary, "It")
        written = "".join(
            span.text for span in template.render([{"role": "user", "content": "Are you {{ 1 }} there?"}])
        )
        assert "Are you {{ 1 }} there?" in written


WORDS = [
    *("<|muse|>", "<|/muse|>", "[DO]", "<act ", "look_up", ">", "<in word>", "</in>", "<act:", "<do>", "<k>", "<v>"),
    *("<|py|>", "(", ")", "word=", "<<stop>>", "<<assistant>>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
    *('{"name": "look_up", "arguments": {', '{"do": "look_up", "with": {', '"word": "', '"}', "}}", "[", "]", ",", "{"),
    *("<|channel|>", "<|message|>", "<|call|>", "commentary to=functions.look_up ", "<|constrain|>json", "<|end|>"),
    *("<function=", "<parameter=word>", "</parameter>", "```json\n", "```", "\\", "\\u12", "'", '"'),
    *("\n", " ", "<", "a b"),
    *("\x00", "😀", "[TOOL_CALLS]", "1e999", "NaN", "nul", "[" * 600, " " * 5000),
]


@pytest.fixture(scope="module")
def forms():
    return [form(calls) for calls in WRITTEN] + [format_of_source("{{ '<|start|><|channel|><|message|>' }}")]


@fuzz(80)
@given(SEEDS)
def test_answers(forms, by):
    """How an answer was cut does not matter, and arguments that were read are an object."""
    text = "".join(by.choice(WORDS) for _ in range(by.choice([1, 3, 8, 30])))
    chosen, tools = by.choice(forms), by.choice([TOOLS, {}])
    with refused_at_most():
        reading = read(chosen, text, tools)
        assert all(isinstance(json.loads(call.arguments), dict) for call in reading.calls)
        for size in (1, by.randrange(2, 20)):
            assert read(chosen, text, tools, size=size) == reading, text


def test_what_nobody_damaged_is_accepted(vocabulary, store):
    """Or the cases above would all end at the first look."""
    check_grammar(json_grammar(SCHEMA["properties"]["a"]))
    assert GrammarState(gbnf_grammar('root ::= [a-z]+ "b"?'), vocabulary).mask().any()
    wanted = {name: BODY[name] for name in ("model", "messages", "max_tokens", "stream", "tools", "temperature")}
    assert Chat.read(wanted).asked(SimpleNamespace(settings=AppSettings())).tools is not None
    ((chat,), _) = import_json(store, elsewhere(export_json(store, [store.conversations()[-1].id])))
    store.delete(chat.id)
