"""Plain messages through a chat template: the model's own, its variant for tools, or a stand-in.

Knows jinja2's errors, which nobody else need catch, and nothing of vocabularies, thoughts or what is typed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2

from omnidraft.backends.prompting.formats.of_template import format_of, template_variables
from omnidraft.backends.prompting.formats.shapes import ChatFormat
from omnidraft.backends.prompting.messages import CALLED, PROBE, ROLES, Plain, alternating, one_system, stand_in
from omnidraft.backends.prompting.sandbox import SafeTemplate, compile_template
from omnidraft.backends.prompting.template_budget import TemplateLimit
from omnidraft.errors import PromptRefused

_PLAIN = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] }}{% else %}"
    "{{ m['role'] | capitalize }}: {{ m['content'] }}{% endif %}{{ '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Given:
    """What a template is given besides messages. generation: whether it shall begin the answer."""

    generation: bool
    tools: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class Renderer:
    """name: the model's; special: texts of its own tokens by the names that templates have for them; controls: how its
    control tokens are spelled. note, stop: see `ChatTemplate`."""

    def __init__(
        self,
        source: str | None,
        for_tools: str | None,
        name: str,
        special: Mapping[str, str],
        controls: Collection[str],
    ) -> None:
        self.name = name
        self.note: str | None = None
        self.stop: tuple[str, ...] = ()
        self._special = special
        self.source, self._template = self._compile(source or for_tools, controls)
        self._tool_source, self._tool_template = self._variant(for_tools)

    @property
    def sources(self) -> str:
        """What the template may write: its text, and what it makes of messages, as some put their markers together."""
        written = [self.written(messages, Given(True)) for messages in (ROLES, ROLES[1:], CALLED)]
        return "\n".join(filter(None, [self.source, self._tool_source, *written]))

    def _compile(self, source: str | None, controls: Collection[str]) -> tuple[str, SafeTemplate]:
        if source:
            try:
                return source, self._checked(source)
            except jinja2.TemplateError as error:
                self.note = f"The chat template of {self.name} cannot be used ({error}), so a plain one is used."
        else:
            self.note = f"{self.name} has no chat template, so a plain one is used."
        if {"<|im_start|>", "<|im_end|>"} <= set(controls):
            return _CHATML, compile_template(_CHATML)
        self.stop = ("\nUser:",)
        return _PLAIN, compile_template(_PLAIN)

    def _variant(self, source: str | None) -> tuple[str, SafeTemplate]:
        """The template for conversations with tools; the ordinary one if there is no other that can be used."""
        try:
            if source:
                return source, self._checked(source)
        except jinja2.TemplateError:
            pass
        return self.source, self._template

    def _checked(self, source: str) -> SafeTemplate:
        """jinja2.TemplateError if the template cannot even write a question."""
        template = compile_template(source)
        if PROBE not in self._rendered(template, [{"role": "user", "content": PROBE}], Given(True)):
            raise jinja2.TemplateError("it leaves out what was asked")
        return template

    def form(self) -> ChatFormat:
        """How this model's answers are written."""
        return format_of(self._tool_source, self._tool_template, tuple(self._special.items()))

    def first(self, ways: Sequence[list[Plain]], given: Given) -> str:
        """What the template writes of the first of these `ways` to say the same that it takes, as they are or with
        what they say in fewer turns; PromptRefused if it takes none."""
        said = [m["content"].strip() for m in ways[0] if m["role"] == "system"]
        attempts = [*ways[:1], *(merged for way in ways if (merged := one_system(way)) not in ways[:1])]
        for attempt in attempts:
            try:
                text = self._render(attempt, given)
                if stand_in(text, said):
                    return text  # else the template passed over a system message in silence
            except TemplateLimit as error:
                raise self._refusal(error) from None
            except jinja2.TemplateError:
                pass
        last = ways[-1]
        try:
            rich = given.tools or any(m["role"] == "tool" or "tool_calls" in m for m in last)
            return self._render(last if rich else alternating(last), given)
        except jinja2.TemplateError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: jinja2.TemplateError) -> PromptRefused:
        return PromptRefused(f"The chat template of {self.name} refuses this conversation: {error}.")

    def written(self, messages: list[Plain], given: Given) -> str | None:
        """What it writes of exactly these messages; None if it refuses."""
        try:
            return self._render(messages, given)
        except jinja2.TemplateError:
            return None

    def _render(self, messages: list[Plain], given: Given) -> str:
        tools = given.tools or any(m["role"] == "tool" or "tool_calls" in m for m in messages)
        return self._rendered(self._tool_template if tools else self._template, messages, given)

    def _rendered(self, template: SafeTemplate, messages: list[Plain], given: Given) -> str:
        known = template_variables(messages, list(given.tools), given.generation)
        variables = {**given.options, **self._special, **known}
        try:
            return template.render(variables)
        except TemplateLimit:
            raise
        except jinja2.TemplateError:
            if given.tools:
                raise
            return template.render({**variables, "tools": []})  # some go through a list without asking for it
