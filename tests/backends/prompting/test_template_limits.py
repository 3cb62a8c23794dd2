"""Templates that ask for more time or memory than a prompt can need are refused soon, in a sentence; others are not."""

import sys
import time

import pytest

from omnidraft.backends.prompting.sandbox import compile_template
from omnidraft.backends.prompting.templates import ChatTemplate

SECONDS = 20  # of the processor; the budget is 3, and unlimited most of these take hours, or all memory
ASK = [{"role": "user", "content": "Hi"}]


DOUBLING = "{% set x = 'ab' %}" + "{% set x = x OP x %}" * 40 + "{{ x | length }}"
NESTED = "{% set x = [1, 2] %}" + "{% set x = [x, x] %}" * 60
TWICE = NESTED + "{% set y = [1, 2] %}" + "{% set y = [y, y] %}" * 60


@pytest.mark.parametrize("source", [
    "{% set n = 7 ** 999999999 %}{{ n }}",
    "{% set ns = namespace(n=3) %}{% for i in range(9999) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}" + "some text " * 1000 + "{% endfor %}",
    "{% for a in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{{ 'a' * 10**9 }}", "{{ [0] * 10**9 }}", "{{ 10**9 * 'a' }}",
    "{{ '%999999999d' % 1 }}", "{{ '%*d' % (999999999, 1) }}", "{{ '%999999999d' | format(1) }}",
    "{{ '{:999999999}'.format(1) }}", "{{ '{:{}}'.format(1, 999999999) }}",
    "{{ ('{:999999999}' | attr('format'))(1) }}", "{% set f = '{:999999999}'.format %}{{ f(1) }}",
    "{% set big = ['a' * 9] * 99999 %}" + "{{ big | sort | length }}" * 999,
    "{{ ('%s' * 99999) % (('a' * 999999,) * 99999) }}",
    "{{ messages | tojson(indent=10**9) }}", "{{ messages | tojson(indent='a' * 999999) }}",
    "{{ 'a'.center(10**9) }}", "{{ 'a'.ljust(10**9) }}", "{{ 'a'.zfill(10**9) }}", "{{ 'a' | center(10**9) }}",
    "{{ 'a' | indent(10**9, true) }}", "{{ 1.5 | round(10**9) }}", "{{ [1] | batch(10**9, 0) | list }}",
    "{{ [1] | slice(10**10) | list }}",
    "{{ ('a' * 99999).replace('a', 'b' * 999999) }}", "{{ ('a' * 99999) | replace('a', 'b' * 999999) }}",
    "{{ ('a' * 999999).join(range(99999)) }}", "{{ range(99999) | join('a' * 999999) }}",
    "{{ ('a' * 999999).join('b' * 99999) }}", "{{ (5).to_bytes(10**9) }}", "{{ 'a'.translate({97: 'b' * 9999}) }}",
    "{{ ('a' * 99999).expandtabs(10**9) }}", "{{ strftime_now('%999999999d') }}",
    DOUBLING.replace("OP", "~"), DOUBLING.replace("OP", "+"),
    "{% set x = 'ab' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40,
    NESTED + "{{ x }}", NESTED + "{{ x | tojson }}", NESTED + "{{ x | string }}", NESTED + "{{ x ~ '' }}",
    TWICE + "{{ x == y }}", NESTED + "{{ x | sort }}",
    "{% set x = namespace() %}" + "".join(
        "{% set y = namespace(a=x, b=x) %}{% set x = y %}" for _ in range(60)) + "{{ [x] }}{{ x }}{{ 1 / 0 }}",
    "{% macro m(n) %}{{ m(n - 1) }}{{ m(n - 1) }}{% endmacro %}{{ m(900) }}",
    "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% else %}" + "word " * 999
    + "{% endif %}{% endmacro %}{{ m(60) }}",
    "{% set big = 'a' * 999999 %}{% for i in range(99999) %}{% if big == 'a' * 999999 %}{% endif %}{% endfor %}",
    "{% set big = 'a' * 999999 %}{% for i in range(99999) %}{% if 'ab' in big %}{% endif %}{% endfor %}",
    "{% set big = 'a' * 999999 %}{% for i in range(99999) %}{% set x = big[1:] %}{% endfor %}",
    "{% set big = 'a' * 999999 %}{% for i in range(99999) %}{% set x = big | upper %}{% endfor %}",
    "{% set big = 'a' * 999999 %}{% for i in range(99999) %}{% set x = big.split('a') %}{% endfor %}",
    "{{ range(99999)" + " | map('int') | select" * 40 + " | sum }}",
    "{% set o = namespace(t='a' * 999999) %}{{ range(99999) | map('replace', '', o.t) | join }}",
    "{% set o = namespace(t='a' * 999999) %}{{ ([o] * 99999) | map(attribute='t') | join }}",
    "{% set o = namespace(t='a' * 999999) %}{{ ([o] * 99999) | join(attribute='t') }}",
    "{% set o = namespace(t='a' * 999999) %}{% for i in range(99999) %}{{ o.t }}{% endfor %}",
])  # fmt: skip
def test_what_asks_for_too_much_is_refused_soon(vocabulary, source):
    begun = time.process_time()
    template = ChatTemplate(source, vocabulary, "It")
    assert any("Hi" in span.text for span in template.render(ASK))
    assert time.process_time() - begun < SECONDS
    assert "cannot be used" in template.note


@pytest.mark.parametrize("source", [
    "{{ " + "(" * 50_000, "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "{{ 1" + "+ 1" * 50_000 + " }}",
    "{% if 1 %}" * 2000 + "{% endif %}" * 2000, "{{ " + "9" * 5000 + " }}", "{{ " + "not " * 5000 + "1 }}",
    "{{ '" + "a" * 140_000 + "' }}", "{{ x | lipsum }}", "{% for %}", "{{ 'a' is nonsense }}",
])  # fmt: skip
def test_what_cannot_be_compiled_gives_way_to_a_plain_template(vocabulary, source):
    begun = time.process_time()
    template = ChatTemplate(source, vocabulary, "It")
    assert "cannot be used" in template.note
    assert any("Hi" in span.text for span in template.render(ASK))
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("source", ["", "{# nothing #}", "{% set x = 1 %}", "{% if false %}a{% endif %}"])
def test_a_template_that_leaves_out_the_question_gives_way_to_a_plain_one(vocabulary, source):
    template = ChatTemplate(source or "{{ '' }}", vocabulary, "It")
    assert "leaves out what was asked" in template.note
    assert any("Hi" in span.text for span in template.render(ASK))


@pytest.mark.skipif(sys.gettrace() is not None, reason="it is about time, and every line is being traced")
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
    text = compile_template(source).render({"messages": messages})
    assert text.count("<|im_start|>") == 20_000
    huge = [{"role": "user", "content": "x" * (8 << 20)}]
    assert len(compile_template(source).render({"messages": huge})) > 8 << 20
