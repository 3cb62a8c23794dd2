"""Chat templates: messages in, spans of text and control tokens out.

A control token in the result was written by the template. What a person or a model wrote is text, even where it
spells a control token: such strings are replaced by placeholders before rendering and come back as text. Knows
nothing of token ids beyond the control tokens' own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jinja2
import numpy as np

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.prompting.formats.harmony import THOUGHT_MARKS
from omnidraft.backends.prompting.formats.of_template import format_of, template_variables
from omnidraft.backends.prompting.formats.open import Reader, begun_text, open_reader
from omnidraft.backends.prompting.formats.pattern import is_marker
from omnidraft.backends.prompting.formats.shapes import ChatFormat
from omnidraft.backends.prompting.sandbox import SafeTemplate, compile_template, template_options
from omnidraft.backends.prompting.template_budget import TemplateLimit
from omnidraft.backends.prompting.tool_prompt import (
    PROBE,
    PROBE_MESSAGES,
    as_text,
    mapped,
    strings,
    uses_tools,
    with_calls,
)
from omnidraft.errors import PromptRefused
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.vocabulary import TokenKind

Message = Mapping[str, Any]

_PLAIN = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] }}{% else %}"
    "{{ m['role'] | capitalize }}: {{ m['content'] }}{% endif %}{{ '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_THOUGHTS = ("<think>", "</think>")
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a rendered prompt: text, or one control token (then `text` is how the template spells it).

    joined: text that goes on from the text before it, cut there because a marker that somebody typed stands across.
    """

    text: str
    control_id: int | None = None
    joined: bool = False

    @property
    def control(self) -> bool:
        return self.control_id is not None


class ChatTemplate:
    """Renders conversations for one model.

    note: a sentence if the file's own template is missing or unusable and a plain one stands in, else None;
    stop: strings that end an answer when the template has no control token for it.
    """

    def __init__(self, source: str | None, vocabulary: Vocabulary, name: str = "The model") -> None:
        self.name = name
        self.note: str | None = None
        self.stop: tuple[str, ...] = ()
        self._controls = {text: id for text, id in vocabulary.controls.items() if text}
        self._pattern = _alternatives(self._controls)
        self._eog = vocabulary.eog
        ids = {id: text for text, id in self._controls.items()}
        self._special = {
            "bos_token": "" if vocabulary.bos is None else ids.get(vocabulary.bos, ""),
            "eos_token": "" if vocabulary.eos is None else ids.get(vocabulary.eos, ""),
            "unk_token": "",
            "pad_token": "",
        }
        self._source, self._template = self._compile(source)
        # Typed by somebody, these stay text as well: the template's markers that the vocabulary has as text.
        written = (vocabulary.pieces[id].decode("utf-8", "replace") for id in _user_defined(vocabulary))
        self._marks = sorted({text for text in written if is_marker(text) and text in self._source})
        self._typed = _alternatives([*self._controls, *self._marks])

    @classmethod
    def from_model(cls, info: ModelInfo, vocabulary: Vocabulary) -> ChatTemplate:
        """The template in the model's file, or a stand-in (see `note`)."""
        return cls(info.chat_template, vocabulary, info.name)

    def _compile(self, source: str | None) -> tuple[str, SafeTemplate]:
        if source:
            try:
                template = compile_template(source)
                self._check(template)
                return source, template
            except jinja2.TemplateError as error:
                self.note = f"The chat template of {self.name} cannot be used ({error}), so a plain one is used."
        else:
            self.note = f"{self.name} has no chat template, so a plain one is used."
        if {"<|im_start|>", "<|im_end|>"} <= self._controls.keys():
            return _CHATML, compile_template(_CHATML)
        self.stop = ("\nUser:",)
        return _PLAIN, compile_template(_PLAIN)

    def _check(self, template: SafeTemplate) -> None:
        """jinja2.TemplateError if the template cannot even write a question."""
        self._rendered(template, [{"role": "user", "content": PROBE}], True)

    @cached_property
    def form(self) -> ChatFormat:
        """How this model's answers are written."""
        return format_of(self._source, self._template, tuple(self._special.items()))

    @cached_property
    def markers(self) -> dict[int, bytes]:
        """Control tokens that an answer's text spells out, because thoughts and calls begin and end with them."""
        literals = self.form.literals()
        return {
            id: text.encode() for text, id in self._controls.items()
            if any(text in literal for literal in literals) and (id not in self._eog or id in self.inner)
        }  # fmt: skip

    @cached_property
    def inner(self) -> frozenset[int]:
        """Tokens that end a part of an answer, though they end answers of other models."""
        return frozenset({self._controls["<|end|>"]} if self.form.harmony and "<|end|>" in self._controls else ())

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of what the template can be told besides messages and tools."""
        return template_options(self._source)

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> list[Span]:
        """Spans of the conversation as this model reads it; neighbouring text is one span.

        A template without a system role, or one that insists on alternating roles, gets the system message folded
        into the first user message and neighbours of one role joined. ModelError if it refuses even that. Tools
        (tool_prompt.py) are rendered where the template supports them, else calls and results become text.
        """
        tools: list[Any] = []
        if not uses_tools(messages):
            flat: list[dict[str, Any]] = [_flat(message) for message in messages]
        elif self.supports_tools:
            flat = [with_calls(message, _flat(message)) for message in messages]
            tools = list(messages[-1].get("tools") or ())
        else:
            flat = [as_text(message, _flat(message)) for message in messages]
        sentinel = self._unused_character([flat, tools])
        hidden = [{**self._protect(message, sentinel), "role": message["role"]} for message in flat]
        spans = self._spans(self._attempt(hidden, add_generation_prompt, self._protect(tools, sentinel)), sentinel)
        if not spans:
            raise PromptRefused(f"The chat template of {self.name} writes nothing of this conversation.")
        return spans

    @cached_property
    def supports_tools(self) -> bool:
        """Whether the template writes the tools it is given."""
        try:
            return PROBE in self._render(PROBE_MESSAGES, True, PROBE_MESSAGES[0]["tools"])
        except jinja2.TemplateError:
            return False

    @property
    def source(self) -> str:
        """The template's own text."""
        return self._source

    @cached_property
    def answer_prefix(self) -> str:
        """What stands between the generation prompt and an earlier answer, " " behind `ASSISTANT:`, mostly "".

        A model tends to begin its answer with it; take it off before storing the answer, or it stands there twice.
        """
        asked = [{"role": "user", "content": "a"}]
        prompt = "".join(span.text for span in self.render(asked))
        whole = "".join(
            span.text for span in self.render([*asked, {"role": "assistant", "content": "\N{BULLET}"}], False)
        )
        between, found, _ = whole.removeprefix(prompt).partition("\N{BULLET}")
        return between if found and whole.startswith(prompt) and between.isspace() else ""

    @cached_property
    def opened(self) -> str:
        """What the prompt itself begins of an answer: mostly nothing, or thoughts that it opens or leaves out."""
        asked = [{"role": "user", "content": "a"}]
        before, whole = ("".join(span.text for span in self.render(asked, begin)) for begin in (False, True))
        return begun_text(self.form, whole.removeprefix(before)) if whole.startswith(before) else ""

    @property
    def opens_thoughts(self) -> bool:
        """Whether an answer begins inside its thoughts."""
        return bool(self.opened.strip()) and not any(str(end[-1]) in self.opened for end in self.form.thoughts.ends)

    @cached_property
    def thought_marks(self) -> list[str] | None:
        """What begins thoughts ("" where the prompt does), what ends them, and what begins an answer without any; None
        where they are `<think>` or nothing is known of them."""
        if self.form.harmony:
            return list(THOUGHT_MARKS)
        begins, ends = self.form.thoughts.begins, self.form.thoughts.ends
        if not ends or any("think>" in str(part) for written in (*begins, *ends) for part in written):
            return None
        begin = "".join(map(str, begins[0])) if begins and not self.opens_thoughts else ""
        end = " ".join(map(str, ends[0]))
        return [begin, end, ""] if begin or self.opens_thoughts else None

    def reader(self, tools: Mapping[str, Any]) -> Reader:
        """Reads an answer as it comes. tools: schemas of the parameters of what was offered, by name."""
        return open_reader(self.form, tools, self.opened)

    def _attempt(self, messages: list[dict[str, Any]], add_generation_prompt: bool, tools: Sequence[Any] = ()) -> str:
        said = [m["content"].strip() for m in messages if m["role"] == "system"]
        merged = _one_system(messages)
        for attempt in [messages, merged] if merged != messages else [messages]:
            try:
                text = self._render(attempt, add_generation_prompt, tools)
                if _stand_in(text, said):
                    return text  # else the template passed over a system message in silence
            except TemplateLimit as error:
                raise self._refusal(error) from None
            except jinja2.TemplateError:
                pass
        try:
            rich = tools or any(m["role"] == "tool" or "tool_calls" in m for m in messages)
            return self._render(messages if rich else _alternating(messages), add_generation_prompt, tools)
        except jinja2.TemplateError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: jinja2.TemplateError) -> PromptRefused:
        return PromptRefused(f"The chat template of {self.name} refuses this conversation: {error}.")

    def _render(self, messages: list[dict[str, Any]], add_generation_prompt: bool, tools: Sequence[Any] = ()) -> str:
        return self._rendered(self._template, messages, add_generation_prompt, tools)

    def _rendered(
        self, template: SafeTemplate, messages: list[dict[str, Any]], add_generation_prompt: bool,
        tools: Sequence[Any] = (),
    ) -> str:  # fmt: skip
        variables = {**self._special, **template_variables(messages, list(tools), add_generation_prompt)}
        try:
            return template.render(variables)
        except TemplateLimit:
            raise
        except jinja2.TemplateError:
            if tools:
                raise
            return template.render({**variables, "tools": []})  # some go through a list without asking for it

    def _unused_character(self, values: Any) -> str:
        texts = [self._source, *strings(values)]
        used = set().union(*texts)
        free = next((chr(code) for code in _PRIVATE_USE if chr(code) not in used), None)
        while free is None:  # all of them are in use: then three in a row that nobody could foresee
            row = "".join(chr(secrets.choice(_PRIVATE_USE)) for _ in range(3))
            free = row if not any(row in text for text in texts) else None
        return free

    def _protect(self, value: Any, sentinel: str) -> Any:
        """`value` with every marker in it spelt as sentinel, number, sentinel. The model's own thoughts keep theirs:
        templates look for them in earlier answers, to leave them out."""
        pattern = self._typed
        if pattern is None:
            return value
        numbers = {text: number for number, text in enumerate([*self._controls, *self._marks])}
        own = _THOUGHTS if isinstance(value, dict) and value.get("role") == "assistant" else ()
        hide = lambda m: m[0] if m[0] in own else f"{sentinel}{numbers[m[0]]}{sentinel}"  # noqa: E731
        return mapped(value, lambda text: pattern.sub(hide, text))

    def _spans(self, rendered: str, sentinel: str) -> list[Span]:
        spans: list[Span] = []
        pieces = self._pattern.split(rendered) if self._pattern else [rendered]
        for index, piece in enumerate(pieces):
            if index % 2:
                spans.append(Span(piece, self._controls[piece]))
            elif piece:
                spans += self._typed_text(piece, sentinel)
        return spans

    def _typed_text(self, piece: str, sentinel: str) -> Iterator[Span]:
        """Text with what was typed in its place; cut within markers that the vocabulary would make one token of."""
        texts = [*self._controls, *self._marks]
        parts = re.split(f"{sentinel}(\\d+){sentinel}", piece)
        text, joined = parts[0].replace(sentinel, ""), False
        for number, behind in zip(parts[1::2], parts[2::2], strict=True):
            typed = texts[int(number)]
            if typed in self._controls:
                text += typed
            else:
                yield Span(text + typed[:1], joined=joined)
                text, joined = typed[1:], True
            text += behind.replace(sentinel, "")
        if text:
            yield Span(text, joined=joined)


def _user_defined(vocabulary: Vocabulary) -> Iterable[int]:
    return np.flatnonzero(vocabulary.kinds[: len(vocabulary.pieces)] == TokenKind.USER_DEFINED).tolist()


def _one_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The system messages in front as one."""
    count = next((index for index, m in enumerate(messages) if m["role"] != "system"), len(messages))
    if count < 2:
        return messages
    text = "\n\n".join(str(m["content"]) for m in messages[:count])
    return [{"role": "system", "content": text}, *messages[count:]]


def control_pattern(vocabulary: Vocabulary) -> re.Pattern[str] | None:
    """What finds the control tokens that a text spells; None if there are none."""
    return _alternatives(text for text in vocabulary.controls if text)


def _alternatives(strings: Iterable[str]) -> re.Pattern[str] | None:
    ordered = sorted(strings, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None


def _stand_in(text: str, parts: Sequence[str]) -> bool:
    """Whether all `parts` stand in `text`; quick where they stand there in their order."""
    end = 0
    for part in parts:
        place = text.find(part, end)
        if place < 0 and part not in text:
            return False
        end = place + len(part) if place >= 0 else end
    return True


def _flat(message: Message) -> dict[str, str]:
    """The message with plain strings: content given as a list of parts becomes their text."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part if isinstance(part, str) else part.get("text", "") for part in content)
    # A lone surrogate (half an emoji cut by a browser) has no UTF-8 form.
    return {"role": str(message["role"]), "content": content.encode("utf-8", "replace").decode()}


def _alternating(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same words in user and assistant turns that alternate, beginning with the user's."""
    result: list[dict[str, str]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        if result and result[-1]["role"] == role:
            result[-1] = {"role": role, "content": result[-1]["content"] + "\n\n" + message["content"]}
        else:
            result.append({"role": role, "content": message["content"]})
    if result and result[0]["role"] == "assistant":
        result.insert(0, {"role": "user", "content": ""})
    return result
