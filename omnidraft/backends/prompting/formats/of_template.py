"""The format of a chat template's text, found out once for each.

A template is not trusted: what it writes too slowly or at too great a length tells nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2

from omnidraft.backends.prompting.formats.learn import learn_format
from omnidraft.backends.prompting.formats.shapes import ChatFormat
from omnidraft.backends.prompting.sandbox import SafeTemplate, compile_template

_SECONDS = 3.0  # of the processor's time, for all that a template is asked
_LONGEST = 1 << 15  # characters; those in circulation write up to 7,000 around the few words they are given


def format_of_source(source: str) -> ChatFormat:
    """jinja2.TemplateError if the template is not valid."""
    return format_of(source, compile_template(source), (("bos_token", ""), ("eos_token", "")))


@lru_cache(32)
def format_of(source: str, template: SafeTemplate, special: tuple[tuple[str, str], ...]) -> ChatFormat:
    """special: names and texts of the model's own tokens, as the template knows them."""
    until = time.thread_time() + _SECONDS

    def render(
        messages: list[Mapping[str, Any]], tools: list[Any], add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> str | None:
        if time.thread_time() > until:
            return None
        given = template_variables(messages, tools, add_generation_prompt)
        try:
            text = template.render({**dict(special), **given, **options})
        except jinja2.TemplateError:
            return None
        return text if len(text) <= _LONGEST else None

    return learn_format(render, source)


def template_variables(messages: Any, tools: list[Any], add_generation_prompt: bool) -> dict[str, Any]:
    """What every template is given; some call the tools `functions`, and the date `datetime`."""
    return {
        "messages": messages, "add_generation_prompt": add_generation_prompt, "tools": tools or None,
        "documents": None, "functions": json.dumps(tools, ensure_ascii=False, indent=2) if tools else "",
        "datetime": datetime.now().strftime("%b %d %Y %H:%M:%S"),
    }  # fmt: skip
