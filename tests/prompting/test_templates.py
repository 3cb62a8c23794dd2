"""Templates render as in Hugging Face's library; control tokens are the template's alone; templates are not trusted."""

from pathlib import Path

import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.errors import ModelError, PromptRefused
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.prompting.typed_text import Span
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Tell me a joke."},
]
EXPECTED = {
    "tiny-target-a": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nTell me a joke.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "tiny-target-b": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nTell me a joke.<|im_end|>\n<|im_start|>assistant\n",
    "tiny-drafter": "<s>Be brief. USER: Hi ASSISTANT: Hello!</s>USER: Tell me a joke. ASSISTANT:",
}
EXPECTED["tiny-target-a2"] = EXPECTED["tiny-target-a"]


@pytest.fixture(scope="module")
def vocabularies(models: Path) -> dict[str, Vocabulary]:
    return {name: read_gguf_vocabulary(models / f"{name}-f16.gguf") for name in EXPECTED}


@pytest.fixture
def bundled(vocabularies: dict[str, Vocabulary], models: Path):
    def template(name: str) -> ChatTemplate:
        return ChatTemplate.from_model(read_info(models / f"{name}-f16.gguf"), vocabularies[name])

    return template


def text(spans: list[Span]) -> str:
    return "".join(span.text for span in spans)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_bundled_templates_render(bundled, vocabularies: dict[str, Vocabulary], name: str):
    template = bundled(name)
    spans = template.render(MESSAGES)
    assert text(spans) == EXPECTED[name]
    assert template.note is None
    controls = vocabularies[name].controls
    assert all(controls[span.text] == span.control_id for span in spans if span.control)
    assert not any(control in span.text for span in spans if not span.control for control in controls)


ALTERNATE = "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
SYSTEM, TWICE = {"role": "system", "content": "a"}, [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]


@pytest.mark.parametrize(("source", "messages", "written"), [
    ("{% for m in messages %}{{ raise_exception('no system') if m.role == 'system' }}" + ALTERNATE
     + "[{{ m.role }}]{{ m.content }}{% endfor %}", MESSAGES,
     "[user]Be brief.\n\nHi[assistant]Hello![user]Tell me a joke."),
    ("{% for m in messages %}{% if m.role != 'system' %}[{{ m.content }}]{% endif %}{% endfor %}", MESSAGES[:2],
     "[Be brief.\n\nHi]"),
    ("{% for m in messages %}" + ALTERNATE + "[{{ m.content }}]{% endfor %}", TWICE, "[a\n\nb]"),
    ("{% if messages[0].role == 'system' %}[{{ messages[0].content }}]{% set messages = messages[1:] %}{% endif %}"
     "{% for m in messages %}{{ raise_exception('no') if m.role == 'system' }}{{ m.content }}{% endfor %}",
     [SYSTEM, SYSTEM, TWICE[1]], "[a\n\na]b"),
])  # fmt: skip
def test_what_a_template_refuses_or_ignores_is_joined_to_a_message_that_it_takes(chatml, source, messages, written):
    assert text(chatml(source).render(messages)) == written


def test_a_conversation_that_a_template_refuses_is_an_error_with_its_words(chatml):
    template = chatml("{% for m in messages %}{{ m.content }}{% if '8' in m.content %}{{ raise_exception('no 8') }}"
                      "{% endif %}{% endfor %}")  # fmt: skip
    with pytest.raises(PromptRefused, match="no 8"):
        template.render([{"role": "user", "content": "8"}])


def test_helpers_templates_rely_on(chatml):
    source = (
        "{%- set ns = namespace(n=0) -%}\n{% for m in messages %}\n    {% set ns.n = ns.n + 1 %}\n{% endfor %}\n"
        "{{ messages[0].content }}"
        "{{ ns.n }} {{ {'a': '<é>'} | tojson }} {{ strftime_now('%Y') | int > 2000 }} "
        "{% generation %}g{% endgeneration %}"
        "{% for i in range(9) %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    )
    assert text(chatml(source).render(MESSAGES[1:2])) == 'Hi1 {"a": "<é>"} True g0'


def test_control_tokens_built_from_parts_are_control_tokens(chatml, vocabularies: dict[str, Vocabulary]):
    spans = chatml("{{ '<|' + 'im_' + 'start|>' }}{{ messages[0].content }}").render([{"role": "user", "content": "x"}])
    assert spans == [Span("<|im_start|>", vocabularies["tiny-target-b"].controls["<|im_start|>"]), Span("x")]


ATTACKS = [
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.__class__ }}",
    "{{ messages[0]['content'].__init__.__globals__ }}",
    "{{ raise_exception.__globals__['json'] }}",
    "{{ strftime_now.__globals__ }}",
    "{{ (messages | attr('__class__')) }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{% set ns = namespace(__class__=1) %}{{ ns.__class__.__name__ }}",
    "{% set ns = namespace() %}{% set ns.__dict__ = 1 %}x",
    "{{ messages.append(1) }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os }}",
    "{{ range(10 ** 9) | list | length }}",
    "{{ self.__init__.__globals__ }}",
    "{{ dict.__base__ }}",
]


@pytest.mark.parametrize("source", ATTACKS)
def test_a_malicious_template_reaches_nothing(chatml, source: str):
    template = chatml(source)
    if template.note is not None:  # a plain one stands in
        return
    try:
        rendered = text(template.render([{"role": "user", "content": "x"}]))
    except ModelError:
        return
    assert rendered in ("", "x")  # an undefined value at most


def test_a_model_without_template_gets_a_plain_one_and_says_so(vocabularies: dict[str, Vocabulary]):
    template = ChatTemplate(None, vocabularies["tiny-target-a"], "Base")
    assert template.note == (
        "Base was made to go on with texts, not to chat (it has no chat template), so it reads conversations as lines "
        'that begin with "User:" and "Assistant:", and may answer poorly.'
    )
    assert text(template.render(MESSAGES)) == (
        "Be brief.\n\nUser: Hi\n\nAssistant: Hello!\n\nUser: Tell me a joke.\n\nAssistant:"
    )
    assert template.stop == ("\nUser:", "\nAssistant:")
    assert template.answer_prefix == " "


def test_without_template_the_control_tokens_of_chatml_are_used_if_they_exist(vocabularies: dict[str, Vocabulary]):
    template = ChatTemplate(None, vocabularies["tiny-target-b"])
    assert text(template.render(MESSAGES)) == EXPECTED["tiny-target-b"]
    assert template.note
    assert template.stop == ()
