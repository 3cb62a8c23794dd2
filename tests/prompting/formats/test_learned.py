"""Formats of templates written here, with markers nobody uses: the mechanism knows none of them beforehand."""

import json
from functools import cache

import pytest

from omnidraft.prompting.formats import of_template
from omnidraft.prompting.formats.chat_format import Call
from omnidraft.prompting.rendering import RENDERING
from tests.prompting.reading import format_of_source, read

TOOLS = {"look_up": {"type": "object", "properties": {"word": {"type": "string"}, "count": {"type": "integer"}}}}
CALL = [Call("look_up", '{"word": "a \\"b\\"", "count": 2}')]

TURNS = """
{%- for m in messages %}{{ '<<' + m.role + '>>' }}
{%- if m.role == 'assistant' and m.reasoning_content %}{{ '<|muse|>' + m.reasoning_content + '<|/muse|>' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}CALLS{% endfor %}{{ '<<stop>>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<<assistant>>' }}{% if enable_thinking %}{{ '<|muse|>' }}{% endif %}{% endif %}"""

JSON = "{{ '[DO]' + {'do': c.function.name, 'with': c.function.arguments} | tojson + '[/DO]' }}"
TEXT = (
    "{{ '[DO]' + {'do': c.function.name, 'with': c.function.arguments | tojson(separators=(',', ':'))} | tojson }}"
    "{{ '[/DO]' }}"
)
NAMED = "{{ '<act:' + c.function.name + '>' + c.function.arguments | tojson + '</act>' }}"
TAGS = (
    "{{ '<act ' + c.function.name + '>' }}{% for k, v in c.function.arguments.items() %}{{ '<in ' + k + '>\n' }}"
    "{{ v if v is string else v | tojson }}{{ '\n</in>\n' }}{% endfor %}{{ '</act>' }}"
)
PAIRS = (
    "{{ '<do>' + c.function.name }}{% for k, v in c.function.arguments.items() %}{{ '\n<k>' + k + '</k>\n<v>' }}"
    "{{ v if v is string else v | tojson }}{{ '</v>' }}{% endfor %}{{ '\n</do>' }}"
)
PYTHON = (
    "{{ '<|py|>' + c.function.name + '(' }}{% for k, v in c.function.arguments.items() %}{{ k + '=' }}"
    "{{ '\"' + v + '\"' if v is string else v | tojson }}{{ ', ' if not loop.last }}{% endfor %}{{ ')<|/py|>' }}"
)
WRITTEN = {
    JSON: '[DO]{"do": "look_up", "with": {"word": "a \\"b\\"", "count": 2}}[/DO]',
    TEXT: f"[DO]{json.dumps({'do': 'look_up', 'with': CALL[0].arguments})}[/DO]",
    NAMED: '<act:look_up>{"word": "a \\"b\\"", "count": 2}</act>',
    TAGS: '<act look_up><in word>\na "b"\n</in>\n<in count>\n2\n</in>\n</act>',
    PAIRS: '<do>look_up\n<k>word</k>\n<v>a "b"</v>\n<k>count</k>\n<v>2</v>\n</do>',
    PYTHON: '<|py|>look_up(word="a \\"b\\"", count=2)<|/py|>',
}


@cache
def form(calls):
    return format_of_source(TURNS.replace("CALLS", calls))


@pytest.mark.parametrize("calls", WRITTEN)
@pytest.mark.parametrize("size", [0, 1, 3])
def test_thoughts_content_and_calls_are_read_as_the_template_writes_them(calls, size):
    answer = "<|muse|>so\nso<|/muse|>Let me see. " + WRITTEN[calls] * 2
    reading = read(form(calls), answer, TOOLS, "<<assistant>>", size=size)
    assert (reading.reasoning, reading.content) == ("so\nso", "Let me see. ")
    assert [(c.name, json.loads(c.arguments)) for c in reading.calls] == [
        (c.name, json.loads(c.arguments)) for c in CALL * 2
    ]


@pytest.mark.parametrize("calls", WRITTEN)
def test_what_names_no_tool_stays_text(calls):
    written = WRITTEN[calls].replace("look_up", "other")
    for tools in (TOOLS, {}):
        assert read(form(calls), written, tools).content == written


@pytest.mark.parametrize("size", [0, 1])
def test_a_call_that_breaks_off_in_the_middle_of_a_thought_was_only_spoken_of(size):
    named = read(form(NAMED), "<|muse|>They write <act:look_up>x", TOOLS, size=size)
    assert (named.reasoning, named.calls) == ("They write <act:look_up>x", [])


class SlowTemplates:
    """Every rendering takes a second."""

    seconds = 0.0

    def render(self, source, variables):
        self.seconds += 1.0
        return RENDERING.render(source, variables)


def test_a_template_that_takes_its_time_or_writes_without_end_tells_nothing(monkeypatch):
    """One rendering may take seconds, a reader of twenty thousand tags more than a gigabyte."""
    slow = SlowTemplates()
    monkeypatch.setattr(of_template, "RENDERING", slow)
    assert not format_of_source(TURNS.replace("CALLS", JSON) + "{# a second for every rendering #}").learned
    assert slow.seconds > of_template._SECONDS
    monkeypatch.undo()
    assert format_of_source(TURNS.replace("CALLS", JSON) + "{# as fast as it is #}").learned
    for long in ("<a>" * 20_000, "[" * 40_000, "x" * 40_000):
        known = form(f"{{{{ '{long}' }}}}{JSON}")
        assert not known.learned
        assert read(known, WRITTEN[JSON], TOOLS).content == WRITTEN[JSON]
    many = form(f"{{{{ '{'<a>' * 900}' }}}}{JSON}")
    assert read(many, "<a>" * 900 + WRITTEN[JSON], TOOLS).calls == CALL
