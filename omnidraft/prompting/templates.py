"""Chat templates: messages in, spans of text and control tokens out.

A control token in the result was written by the template; what a person or a model wrote is text (messages.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import ModelError, PromptRefused
from omnidraft.prompting import own_ids
from omnidraft.prompting.formats.chat_format import THOUGHT_MARKS, ChatFormat
from omnidraft.prompting.formats.of_template import format_of, template_variables
from omnidraft.prompting.formats.probe import FIELDS, NAMES, USER, tools
from omnidraft.prompting.formats.reader import AnswerReader, begun_text
from omnidraft.prompting.messages import (
    CALLED,
    ROLES,
    Fields,
    Message,
    Plain,
    alternating,
    fields_of_calls,
    flat,
    one_system,
    shaped,
    stand_in,
)
from omnidraft.prompting.own_ids import Place, Speller
from omnidraft.prompting.rendering import RENDERING, TemplateLimit, template_options
from omnidraft.prompting.thinking import TRIED, Told, differ, ways_of_thinking
from omnidraft.prompting.typed_text import Span, TypedText
from omnidraft.vocab import Vocabulary

# Plain messages through a chat template: the model's own, its variant for tools, or a stand-in. Knows jinja2's errors,
# which nobody else need catch, and nothing of vocabularies, thoughts or what is typed.
_PLAIN = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] }}{% else %}"
    "{{ m['role'] | capitalize }}: {{ m['content'] }}{% endif %}{{ '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
NO_TEMPLATE = "{} was made to go on with texts, not to chat (it has no chat template)"
AS_LINES = 'so it reads conversations as lines that begin with "User:" and "Assistant:"'
AS_CHATML = "so it reads conversations in a form that many models know (ChatML)"
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
        self.source = self._chosen(source or for_tools, controls)
        self._tool_source = for_tools if for_tools and self._fault(for_tools) is None else self.source

    @property
    def sources(self) -> str:
        """What the template may write: its text, and what it makes of messages, as some put their markers together."""
        written = [self.written(messages, Given(True)) for messages in (ROLES, ROLES[1:], CALLED)]
        return "\n".join(filter(None, [self.source, self._tool_source, *written]))

    def _chosen(self, source: str | None, controls: Collection[str]) -> str:
        """The template if it can be used, else what stands in for it."""
        fault = self._fault(source) if source else None
        if source and fault is None:
            return source
        unusable = f"The chat template of {self.name} cannot be used ({fault})"
        chatml = {"<|im_start|>", "<|im_end|>"} <= set(controls)
        self.note = unusable if source else NO_TEMPLATE.format(self.name)
        self.note += f", {AS_CHATML if chatml else AS_LINES}, and may answer poorly."
        self.stop = () if chatml else ("\nUser:", "\nAssistant:")
        return _CHATML if chatml else _PLAIN

    def _fault(self, source: str) -> str | None:
        """Why the template cannot be used, if it cannot even write a question."""
        try:
            written = self._rendered(source, [{"role": "user", "content": USER}], Given(True))
        except jinja2.TemplateError as error:
            return str(error)
        return None if USER in written else "it leaves out what was asked"

    def form(self) -> ChatFormat:
        """How this model's answers are written."""
        return format_of(self._tool_source, tuple(self._special.items()))

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
        return self._rendered(self._tool_source if tools else self.source, messages, given)

    def _rendered(self, source: str, messages: list[Plain], given: Given) -> str:
        known = template_variables(messages, list(given.tools), given.generation)
        variables = {**given.options, **self._special, **known}
        try:
            return RENDERING.render(source, variables)
        except TemplateLimit:
            raise
        except jinja2.TemplateError:
            if given.tools:
                raise
            return RENDERING.render(source, {**variables, "tools": []})  # some go through a list without asking for it


_ASKED = [{"role": "user", "content": "a"}]
_REMEMBERED = 64  # options that clients sent
T = TypeVar("T")


def _remembered(known: dict[str, T], key: str, find: Callable[[], T]) -> T:
    """What was found before, else what `find` finds; once too many are known, all are forgotten."""
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = find()
    return known[key]


class ChatTemplate:
    """Renders conversations for one model, and says what its template tells of the answers.

    source: the template's own text; for_tools: its variant for conversations with tools, where the model has one.
    note: a sentence if the file's own template is missing or unusable and a plain one stands in, else None; stop:
    strings that end an answer when the template has no control token for it.
    """

    def __init__(
        self, source: str | None, vocabulary: Vocabulary, name: str = "The model", for_tools: str | None = None
    ) -> None:
        self.name = name
        self._controls = {text: id for text, id in vocabulary.controls.items() if text}
        self._eog = vocabulary.eog
        self._vocabulary = vocabulary
        ids: dict[int | None, str] = {id: text for text, id in self._controls.items()}
        begin, end = ids.get(vocabulary.bos, ""), ids.get(vocabulary.eos, "")
        special = {"bos_token": begin, "eos_token": end, "unk_token": "", "pad_token": ""}
        self._told: Mapping[str, Any] = {}
        self._known: dict[str, bool] = {}  # whether an option changes anything
        self._variants: dict[str, ChatTemplate] = {}  # as it is when told other options, by all of these
        self._renderer = Renderer(source, for_tools, name, special, self._controls)
        self.source, self.note, self.stop = self._renderer.source, self._renderer.note, self._renderer.stop
        self._typed = TypedText(vocabulary, self._renderer.sources)

    @classmethod
    def from_model(cls, info: ModelInfo, vocabulary: Vocabulary, own: str | None = None) -> ChatTemplate:
        """The template in the file `own`, else in the model's, or a stand-in (see `note`). ModelError if the file
        cannot be read."""
        if own is None:
            return cls(info.chat_template, vocabulary, info.name, info.tool_template)
        try:
            return cls(Path(own).expanduser().read_text(encoding="utf-8"), vocabulary, info.name)
        except (OSError, UnicodeDecodeError):
            raise ModelError(f"The chat template {own}, named for {info.name}, cannot be read.") from None

    @cached_property
    def form(self) -> ChatFormat:
        """How this model's answers are written."""
        return self._renderer.form()

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
    def thinks(self) -> bool:
        """Whether this model thinks before it answers, as far as its template tells."""
        ends = self.form.thoughts.ends
        return self.form.harmony or bool(self.form.field) or any("".join(map(str, end)) in self.source for end in ends)

    @cached_property
    def thinking(self) -> dict[str, Told]:
        """What the template can be told about thinking: options by "on", "off", "low", "medium" and "high"."""
        return ways_of_thinking(self._shown, template_options(self.source), self.source)

    def known(self, options: Mapping[str, Any]) -> Told:
        """Those of these options that change anything this template writes."""
        return {name: value for name, value in options.items() if self._knows(name, value)}

    def _knows(self, name: str, value: Any) -> bool:
        named = name in template_options(self.source)
        return named and _remembered(
            self._known, f"{name} {value!r}", lambda: differ(self._shown, name, (value, *TRIED), {})
        )

    def told(self, options: Mapping[str, Any]) -> ChatTemplate:
        """This template told these options, besides those it was told before, whenever it renders."""
        if not options:
            return self
        told = {**self._told, **options}
        return _remembered(self._variants, repr(told), lambda: self._with(told))

    def _with(self, told: Mapping[str, Any]) -> ChatTemplate:
        other = copy.copy(self)  # what was found out of the template stays with it, what prompts look like does not
        other._told = told
        for name in ("opened", "answer_prefix", "thought_marks", "_speller"):
            vars(other).pop(name, None)
        return other

    def _shown(self, options: Mapping[str, Any]) -> tuple[str | None, ...] | None:
        """What it writes of a few conversations when it is told these options; None where it refuses a question."""
        thought = [{"role": "assistant", "content": "b", **dict.fromkeys(FIELDS, "c")}, *_ASKED]
        shapes: list[tuple[list[Plain], list[Any]]] = [([], []), (thought, []), ([], tools())]
        told = {**self._told, **options}
        texts = [self._renderer.written([*_ASKED, *more], Given(True, tools, told)) for more, tools in shapes]
        return None if texts[0] is None else tuple(texts)

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> list[Span]:
        """Spans of the conversation as this model reads it; neighbouring text is one span.

        A template without a system role, or one that insists on alternating roles, gets the system message folded
        into the first user message and neighbours of one role joined. ModelError if it refuses even that. Calls and
        thoughts go to it as fields where it knows them (messages.py), else as text.
        """
        tools = list(messages[-1].get("tools") or ()) if messages and self.supports_tools else []
        flat = self._shaped(messages)
        sentinel = self._typed.sentinel([flat, tools, self._told])
        given = Given(add_generation_prompt, *self._typed.hidden([tools, self._told], sentinel))
        text = self._written(flat, given, sentinel)
        spans, at = list[Span](), 0
        for place in self._answers(messages, given, sentinel, text):
            spans += self._typed.spans(text[at : place.start], sentinel, at > 0)
            spans.append(Span(self._typed.shown(text[place.start : place.end], sentinel), own=place.ids))
            at = place.end
        spans += self._typed.spans(text[at:], sentinel, at > 0)
        if not spans:
            raise PromptRefused(f"The chat template of {self.name} writes nothing of this conversation.")
        return spans

    def _shaped(self, messages: Sequence[Message]) -> list[list[Plain]]:
        """The ways in which the template may be told the conversation, the fullest first."""
        ways = [True, False] if any(message.get("reasoning_content") for message in messages) else [True]
        return [[part for m in messages for part in shaped(m, self._fields, thinking)] for thinking in ways]

    def _written(self, ways: Sequence[list[Plain]], given: Given, sentinel: str) -> str:
        """What the template makes of a conversation, with a sentinel around the markers that somebody typed."""
        hide = self._typed.hidden
        return self._renderer.first([[{**hide(m, sentinel), "role": m["role"]} for m in way] for way in ways], given)

    def _answers(self, messages: Sequence[Message], given: Given, sentinel: str, text: str) -> Iterator[Place]:
        """Where in the `text` that was made of these messages answers stand whose own ids are known."""
        known = own_ids.known(messages, self._vocabulary)
        if not known:
            return
        marks = [{**m, "content": own_ids.mark(n, sentinel)} if n in known else m for n, m in enumerate(messages)]
        said = {n: self._typed.hidden(flat(messages[n]), sentinel)["content"] for n in known}
        try:
            marked = self._written(self._shaped(marks), given, sentinel)
        except PromptRefused:  # what was said matters to it
            return
        for number, start, end in own_ids.stretches(text, marked, sentinel, said):
            shown = self._typed.shown(text[start:end], sentinel)
            place = self._speller.place(known[number], text[:start], end, shown)
            if place is not None:
                yield place

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self._vocabulary, self.markers, self.answer_prefix)

    @cached_property
    def supports_tools(self) -> bool:
        """Whether the template writes the tools it is given."""
        return NAMES[0] in (self._renderer.written(_ASKED, Given(True, tools(), self._told)) or "")

    @cached_property
    def _fields(self) -> Fields:
        """How it takes calls, results and thoughts."""
        thoughts, given = self.form.thoughts, Given(True, tools() if self.supports_tools else [], self._told)
        known = fields_of_calls(lambda messages: self._renderer.written(messages, given))
        begin, end = ("".join(map(str, side[0])) if side else "" for side in (thoughts.begins, thoughts.ends))
        return replace(known, thoughts=self.form.field, marks=(begin, end) if self.thinks and end else None)

    @cached_property
    def answer_prefix(self) -> str:
        """What stands between the generation prompt and an earlier answer, " " behind `ASSISTANT:`, mostly "".

        A model tends to begin its answer with it; take it off before storing the answer, or it stands there twice.
        """
        prompt = "".join(span.text for span in self.render(_ASKED))
        answered = [*_ASKED, {"role": "assistant", "content": "\N{BULLET}"}]
        whole = "".join(span.text for span in self.render(answered, False))
        between, found, _ = whole.removeprefix(prompt).partition("\N{BULLET}")
        return between if found and whole.startswith(prompt) and between.isspace() else ""

    @cached_property
    def opened(self) -> str:
        """What the prompt itself begins of an answer: mostly nothing, or thoughts that it opens or leaves out."""
        before, whole = ("".join(span.text for span in self.render(_ASKED, begin)) for begin in (False, True))
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

    def reader(self, tools: Mapping[str, Any]) -> AnswerReader:
        """Reads an answer as it comes. tools: schemas of the parameters of what was offered, by name."""
        return AnswerReader(self.form, tools, self.opened)
