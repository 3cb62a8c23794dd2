"""Chat templates to test with: a handful written for these tests, and those of published models where they lie beside
the checkout."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pytest

from omnidraft.prompting.formats.chat_format import ChatFormat
from omnidraft.prompting.formats.of_template import format_of, template_variables
from omnidraft.prompting.rendering import RENDERING
from tests.prompting.tool_templates import TEMPLATES

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data" / "formats" / "templates"
MARKER = re.compile(r"<[^<>\s'\"{}]{1,40}>|\[/?[A-Z_]{3,}\]|\]<\]\w+\[>\[|[\]\[]~!?\w+[\]\[]")
SPECIAL = {"bos_token": "<|first|>", "eos_token": "<|last|>"}

# Thoughts that the prompt opens, or opens and closes; a parameter's tag named like it; `/quiet` behind the question.
OPENED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|bot|>' }}
{%- if m.reasoning_content %}{{ '<muse>\n' + m.reasoning_content + '\n</muse>\n\n' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '\n<use name=\"' + c.function.name + '\">\n' }}
{%- for k, v in c.function.arguments.items() %}
{{- '<' + k + '>' + (v if v is string else v | tojson) + '</' + k + '>\n' }}
{%- endfor %}{{ '</use>' }}{% endfor %}{{ eos_token }}
{%- else %}{{ '<|' + m.role + '|>' + m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '' if enable_thinking else ' /quiet' }}{{ '<|bot|>' }}
{{- '<muse>\n' if enable_thinking else '<muse>\n\n</muse>\n\n' }}{% endif %}"""

# Calls in a turn of their own, ids in front of the name, content between tags; calls only where there is no content.
PARTED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if m.thinking %}{{ '[THOUGHTS]' + m.thinking + '[/THOUGHTS]' }}{% endif %}
{%- if m.content is none or not m.content %}{{ '[CALLS]' }}
{%- for c in m.tool_calls or [] %}
{{- '[CALL]' + (c.id or '') + '[NAME]' + c.function.name + '[WITH]' }}
{{- c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{{ '[/CALL]' }}
{%- endfor %}{{ '[/CALLS]' }}
{%- else %}{{ '[SAY]' + m.content + '[/SAY]' }}{% endif %}{{ eos_token }}
{%- else %}{{ '[' + m.role | upper + ']' + m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '[ASSISTANT]' }}{% endif %}"""
PARTED = PARTED.replace("{%- if m.role == 'assistant' %}", "{%- if m.role == 'assistant' %}{{ '[ASSISTANT]' }}")

OWN = {**TEMPLATES, "opened": OPENED, "parted": PARTED}
NAMES = [*OWN, *(sorted(path.stem for path in PUBLISHED.glob("*.jinja")) or ["published"])]
each_template = pytest.mark.parametrize("name", NAMES)


def source(name: str) -> str:
    """The template's text; skips the test where those of published models are not there."""
    if name in OWN:
        return OWN[name]
    if name == "published":
        pytest.skip("needs the templates of published models beside the checkout")
    return (PUBLISHED / f"{name}.jinja").read_text(encoding="utf-8")


@cache
def form(name: str) -> ChatFormat:
    return format_of(source(name), tuple(SPECIAL.items()))


def rendered(name: str, messages: list[Any], tools: list[Any], begin: bool, options: Mapping[str, Any]) -> str | None:
    """What the template makes of a conversation; None where it refuses."""
    for offered in (tools, []):
        try:
            known = template_variables(messages, offered, begin)
            return RENDERING.render(source(name), {**SPECIAL, **known, **options})
        except jinja2.TemplateError:
            continue
    return None
