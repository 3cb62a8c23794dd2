"""Templates that ask for more time or memory than a prompt can need are refused soon, in a sentence; others are not."""

import os
import sys
from contextlib import ExitStack

import pytest
from jinja2 import TemplateError

from omnidraft.errors import PromptRefused
from omnidraft.prompting.rendering import RENDERING
from omnidraft.prompting.templates import ChatTemplate

SECONDS = 20  # of the processor; unlimited most of these take hours, or all memory
ASK = [{"role": "user", "content": "Hi"}]
DOUBLING = "{% set x = 'ab' %}" + "{% set x = x OP x %}" * 40 + "{{ x | length }}"
NESTED = "{% set x = [1, 2] %}" + "{% set x = [x, x] %}" * 60


@pytest.mark.parametrize("source", [
    "{% set n = 7 ** 999999999 %}{{ n }}",
    "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "{% for a in range(99999) %}" + "some text " * 1000 + "{% endfor %}",
    "{{ 'a' * 10**10 }}", "{{ [0] * 10**9 }}", "{{ '{:999999999}'.format(1) }}",
    "{{ messages | tojson(indent=10**9) }}", "{{ 'a'.center(10**9) }}", "{{ [1] | slice(10**10) | list }}",
    "{{ ('a' * 99999) | replace('a', 'b' * 999999) }}", DOUBLING.replace("OP", "~"), NESTED + "{{ x | tojson }}",
    "{% macro m(n) %}{{ m(n - 1) }}{{ m(n - 1) }}{% endmacro %}{{ m(900) }}",
])  # fmt: skip
def test_what_asks_for_too_much_is_refused_soon(vocabulary, source):
    begun = RENDERING.seconds
    template = ChatTemplate(source, vocabulary, "It")
    assert any("Hi" in span.text for span in template.render(ASK))
    assert RENDERING.seconds - begun < SECONDS
    assert "more time or memory than a prompt can need" in template.note


def test_what_has_no_end_after_all_is_refused_and_the_next_one_is_rendered(vocabulary):
    """A conversation may lead a template to where its trial did not."""
    source = (
        "{{ messages[-1].content }}{% if messages | length > 1 %}{{ 'a' * (messages | length * 10**9) }}{% endif %}"
    )
    template = ChatTemplate(source, vocabulary, "It")
    with pytest.raises(PromptRefused, match="more time or memory"):
        template.render([*ASK, {"role": "assistant", "content": "Hello"}, *ASK])
    assert any("Hi" in span.text for span in template.render(ASK))


def test_a_process_that_was_ended_is_started_again():
    assert RENDERING.render("{{ a }}", {"a": "once"}) == "once"
    RENDERING.end()
    assert RENDERING.render("{{ a }}", {"a": "again \ud83d"}) == "again ?"


def test_what_a_template_says_is_wrong_is_a_short_text():
    with pytest.raises(TemplateError) as caught:
        RENDERING.render("{{ raise_exception('\\ud800' + 'a' * 10**7) }}", {})
    assert len(said := str(caught.value)) < 1000
    assert said.encode().startswith(b"?a")


def test_what_is_nested_too_deep_to_be_handed_over_is_refused():
    nested = []
    for _ in range(10_000):
        nested = [nested]
    with pytest.raises(TemplateError, match="more time or memory"):
        RENDERING.render("{{ 1 }}", {"tools": nested})


@pytest.mark.skipif(sys.platform == "win32", reason="there nothing is waited for but the answer")
def test_a_program_with_many_open_files_renders_too():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this system opens no more files")
    RENDERING.end()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        with ExitStack() as files:
            for _ in range(1100):
                files.enter_context(open(os.devnull))
            assert RENDERING.render("{{ 1 }}", {}) == "1"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        RENDERING.end()


@pytest.mark.parametrize("source", [
    "{{ " + "(" * 50_000, "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "{{ 1" + "+ 1" * 50_000 + " }}",
    "{% if 1 %}" * 2000 + "{% endif %}" * 2000, "{{ " + "9" * 5000 + " }}", "{{ " + "not " * 5000 + "1 }}",
    "{{ '" + "a" * 140_000 + "' }}", "{{ x | lipsum }}", "{% for %}", "{{ 'a' is nonsense }}",
    "{{ raise_exception('only on Sundays') }}", "{{ messages[0].content + 1 }}",
])  # fmt: skip
def test_what_cannot_be_compiled_or_writes_no_question_gives_way_to_a_plain_template(vocabulary, source):
    begun = RENDERING.seconds
    template = ChatTemplate(source, vocabulary, "It")
    assert "cannot be used" in template.note
    assert any("Hi" in span.text for span in template.render(ASK))
    assert RENDERING.seconds - begun < SECONDS


@pytest.mark.parametrize("source", ["", "{# nothing #}", "{% set x = 1 %}", "{% if false %}a{% endif %}"])
def test_a_template_that_leaves_out_the_question_gives_way_to_a_plain_one(vocabulary, source):
    template = ChatTemplate(source or "{{ '' }}", vocabulary, "It")
    assert "leaves out what was asked" in template.note
    assert any("Hi" in span.text for span in template.render(ASK))


def test_the_price_grows_with_what_is_given():
    """Templates in circulation add a message to the text so far, look through it and write it as JSON."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} " * 40} for n in range(20_000)]
    source = (
        "{%- set ns = namespace(system='', last=0) -%}{%- for m in messages -%}"
        "{%- if m.role == 'user' and not (m.content.startswith('<tool') and m.content.endswith('</tool')) -%}"
        "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        "{%- for m in messages[::-1] -%}{%- if loop.first -%}{{ m.content | trim }}{%- endif -%}{%- endfor -%}"
        "{%- for m in messages -%}{%- if '</think>' in m.content -%}{%- set c = m.content.split('</think>')[-1] -%}"
        "{%- else -%}{%- set c = m.content | trim -%}{%- endif -%}"
        "{{ '<|im_start|>' + m['role'] + '\\n' + c + '<|im_end|>' + '\\n' }}"
        "{%- if loop.index == messages | length or messages[loop.index0 - 1].role in ['user', 'system'] -%}"
        "{{ m.role ~ '!' }}{%- endif -%}"
        "{%- endfor -%}{{ messages[:100] | tojson(indent=4) }}{{ messages | length }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
        "{{ messages | map(attribute='content') | join('\\n') }}"
    )
    text = RENDERING.render(source, {"messages": messages})
    assert text.count("<|im_start|>") == 20_000
    huge = [{"role": "user", "content": "x" * (8 << 20)}]
    assert len(RENDERING.render(source, {"messages": huge})) > 8 << 20
