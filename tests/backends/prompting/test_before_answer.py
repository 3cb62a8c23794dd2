"""An answer under a grammar stands behind the thoughts that its prompt has opened, or in its channel."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.backends.prompting.call_grammar import behind_thoughts
from omnidraft.backends.prompting.formats.harmony import THOUGHT_MARKS
from omnidraft.backends.prompting.grammar import check_grammar, gbnf_grammar, json_grammar
from omnidraft.backends.prompting.grammar_state import GrammarState
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.backends.prompting.following import takes
from tests.backends.thinking_templates import OPENED, SWITCHED

NUMBER = json_grammar({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
DIGITS = gbnf_grammar('root ::= "n" b\nb ::= [0-9]+')
HARMONY = (
    "{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}{# <|channel|>analysis #}"
)


@pytest.fixture(scope="module")
def vocabulary(models):
    return read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")


@pytest.mark.parametrize("grammar", [NUMBER, DIGITS])
@pytest.mark.parametrize(
    ("before", "good"),
    [("Hm. {\"a\" </thi n1</think>", True), ("</think>\n\n", True), ("", False), ("Hm.", False),
     ("Hm.</think> So: ", False)],
)  # fmt: skip
def test_thoughts_that_are_open_come_first(vocabulary, grammar, before, good):
    behind = behind_thoughts(grammar, ChatTemplate(OPENED, vocabulary))
    answer = '{"a": 3}' if grammar is NUMBER else "n31"
    assert takes(behind, before + answer) is good


def test_where_nothing_is_open_the_answer_comes_at_once(vocabulary):
    assert behind_thoughts(NUMBER, ChatTemplate(SWITCHED, vocabulary)) == NUMBER
    assert behind_thoughts(NUMBER, ChatTemplate(OPENED, vocabulary).told({"thinking": False})) == NUMBER


def test_channels_come_first_with_thoughts_or_without(vocabulary):
    template = ChatTemplate(HARMONY, vocabulary)
    assert template.form.harmony
    behind, (begin, end, bare) = behind_thoughts(NUMBER, template), THOUGHT_MARKS
    check_grammar(behind)
    texts = [f'{begin}Hm.{end}{{"a": 3}}', f'{bare}{{"a": 3}}', '{"a": 3}', f'{begin}Hm.{{"a": 3}}']
    assert [takes(behind, text) for text in texts] == [True, True, False, False]


def test_an_end_of_thoughts_that_is_a_control_token_is_written_as_one(models):
    """`<|start_header_id|>` stands for a marker of thoughts that the vocabulary has as a control token."""
    vocabulary = read_gguf_vocabulary(models / "tiny-target-a-f16.gguf")
    source = (
        "{% for m in messages %}[{{ m.role }}]"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}<|start_header_id|>{% endif %}{{ m.content }}"
        "<|eot_id|>{% endfor %}{% if add_generation_prompt %}[assistant]<think>{% endif %}"
    )
    behind = behind_thoughts(NUMBER, ChatTemplate(source, vocabulary))
    assert behind.controls == ("<|start_header_id|>",)
    state = GrammarState(behind, vocabulary)
    marker = vocabulary.controls["<|start_header_id|>"]
    for token in [*vocabulary.encode("Hm. <|start"), marker, *vocabulary.encode('{"a": 3}')]:
        assert state.allowed(np.array([token]))[0]
        state.accept(token)
    assert state.allowed(np.array([vocabulary.eos]))[0]
