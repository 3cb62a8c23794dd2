"""What requests for answers may hold, but for messages and tools, and what they ask for: a `CompletionRequest`.

Every refusal is a `BadRequest` whose sentence says what is wrong. Knows no engine and writes no answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from omnidraft.app.session import Session
from omnidraft.errors import SettingsError
from omnidraft.prompting.grammar import Grammar, check_grammar, gbnf_grammar, json_grammar
from omnidraft.server.api.body import Body, Given, Texts
from omnidraft.server.api.errors import BadRequest
from omnidraft.server.api.messages import NO_TOOLS, Message, Messages, Tool, Tools, notes, tools_of
from omnidraft.settings.config import MOST_TOKENS, DraftSettings, SamplingSettings

MAX_CHOICES = 32  # of one prompt; they are written one after the other
MAX_PROMPTS = 32
MAX_ALTERNATIVES = 20
MAX_TOOLS = 128
SHORT = 16  # tokens of a completion of the older kind, unless it asks for more
BARRED = -1e6  # logits: nothing else is ever as unlikely, and where all are, one of them can still be drawn
EFFORT = "reasoning.effort"  # an option of templates, as the Responses API names it
_SEEDS = 2**63
_SAMPLING = {field.name for field in dataclasses.fields(SamplingSettings)}

Prompt = list[dict[str, Any]] | str | list[int]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What an answer must look like. schema: a JSON schema, where it is one; notes: what of it is not held."""

    grammar: Grammar | None
    schema: Any = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request that makes sense. prompts: messages, or texts or token ids to go on with; alternatives: how many of the
    likeliest tokens are to be told beside each, None: no log probabilities at all; template_options: what the chat
    template is to be told; writes: False: nothing is to be written behind the prompt."""

    model: str
    sampling: SamplingSettings
    draft: DraftSettings
    stream: bool
    bias: Mapping[int, float]
    prompts: list[Prompt]
    form: AnswerForm = AnswerForm(None)
    tools: Tools = NO_TOOLS
    usage: bool = False  # whether a stream ends with the usage
    n: int = 1  # choices for each prompt
    alternatives: int | None = None
    echo: bool = False
    writes: bool = True
    suffix: str | None = None  # what stands behind the text that is to be written
    trims: bool = False  # whether the far ends of both may go where they do not fit
    template_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form.grammar is not None and self.tools.offered:
            raise BadRequest("Tools cannot be offered together with response_format or grammar; send one of them.")

    @property
    def choices(self) -> list[Choice]:
        """Every choice asked for, in the order of its index."""
        return [Choice(self, p * self.n + i, prompt) for p, prompt in enumerate(self.prompts) for i in range(self.n)]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the choices that a request asks for."""

    asked: CompletionRequest
    index: int
    prompt: Prompt

    @property
    def again(self) -> bool:
        """Whether the choice before has the same prompt."""
        return self.index % self.asked.n > 0

    @property
    def sampling(self) -> SamplingSettings:
        """A seed leads to different choices of one prompt, the same ones every time."""
        sampling, place = self.asked.sampling, self.index % self.asked.n
        return sampling if sampling.seed is None else replace(sampling, seed=(sampling.seed + place) % _SEEDS)


# What a request may hold.


def _pairs(given: Any) -> dict[int, float]:
    """Token id -> what is added to its logit, of an object, or of pairs of ids and biases; false bars a token."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("must be an object of token ids and biases, or a list of such pairs")
    return {_id(token): _bias(bias) for token, bias in pairs}


def _id(token: Any) -> int:
    digits = str(token) if type(token) is int or isinstance(token, str) else ""
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9:
        raise ValueError("takes token ids, which are whole numbers; texts are not supported here")
    return int(digits)


def _bias(value: Any) -> float:
    if value is False:
        return BARRED
    if type(value) not in (int, float) or not -100 <= value <= 100:
        raise ValueError("takes biases from -100 to 100, or false, which bars a token")
    return float(value)


Length = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Count = Annotated[int, Field(ge=1, le=MAX_CHOICES)]
Alternatives = Annotated[int, Field(ge=0, le=MAX_ALTERNATIVES)]


class Asked(Body):
    """What every request for an answer may hold. `Any`: the settings have its rule."""

    model: str = ""
    stream: bool = False
    speculation: bool | None = None
    logit_bias: Annotated[dict[int, float], BeforeValidator(_pairs)] = Field({})
    grammar: str | None = None
    temperature: Any = None
    top_k: Any = None
    top_p: Any = None
    min_p: Any = None
    repeat_penalty: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    seed: Any = None
    stop: Annotated[Any, BeforeValidator(lambda given: [given] if isinstance(given, str) else given)] = None

    def told(self) -> dict[str, Any]:
        """What it says of a `CompletionRequest` besides; `longest`: tokens of the answer at most, None: as set."""
        raise NotImplementedError

    def asked(self, session: Session) -> CompletionRequest:
        """What it asks for; what it leaves open is as set in this session."""
        told = self.told()
        values = self.model_dump(include=_SAMPLING, exclude_unset=True)
        if (longest := told.pop("longest")) is not None:
            values["max_tokens"] = longest
        try:
            sampling = replace(session.settings.sampling, **values)
        except SettingsError as error:
            raise BadRequest(str(error).removeprefix("The setting sampling.")) from None
        draft = session.settings.draft
        enabled = draft.enabled if self.speculation is None else self.speculation
        draft = replace(draft, enabled=enabled and told.get("writes", True))
        return CompletionRequest(self.model, sampling, draft, self.stream, self.logit_bias, **told)


class _Schema(Given):
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool = False


class Format(_Schema):
    """The schema is in `json_schema`, or beside the type, as llama.cpp's clients and the Responses API have it."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


def form_of(name: str, given: Format | None, grammar: str | None) -> AnswerForm:
    """What the field of that name, or a grammar (GBNF), asks for."""
    if given is None or given.type == "text":
        return AnswerForm(_checked(gbnf_grammar(grammar)) if grammar is not None else None)
    if grammar is not None:
        raise BadRequest(f"{name} and grammar cannot be used together.")
    asked = given.json_schema or given
    if asked.schema_ is None and given.type == "json_schema":
        raise BadRequest(f"{name} of type json_schema needs a schema, an object.")
    form = _checked(json_grammar(asked.schema_))
    return AnswerForm(form, asked.schema_, notes(name, asked.schema_, asked.strict))


def _checked(grammar: Grammar) -> Grammar:
    check_grammar(grammar)
    return grammar


class _StreamOptions(Given):
    include_usage: bool = False


class Completion(Asked):
    """What chats and completions of the older kind may hold."""

    n: Count = 1
    stream_options: _StreamOptions = _StreamOptions()
    response_format: Format | None = None

    def told(self) -> dict[str, Any]:
        form = form_of("response_format", self.response_format, self.grammar)
        return {"n": self.n, "usage": self.stream_options.include_usage, "form": form}


class Conversation(Asked):
    """What chats and the Responses API may hold."""

    tools: list[Tool] = Field([], max_length=MAX_TOOLS)
    tool_choice: Any = None
    parallel_tool_calls: bool = True
    chat_template_kwargs: dict[str, Any] = Field({})
    enable_thinking: bool | None = None

    def of_messages(self, messages: Sequence[Message], **options: Any) -> dict[str, Any]:
        """options: what the template is to be told besides."""
        options = {"enable_thinking": self.enable_thinking, **options, **self.chat_template_kwargs}
        return {
            "prompts": [[message.told() for message in messages]],
            "tools": tools_of(self.tools, self.tool_choice, self.parallel_tool_calls),
            "template_options": {name: value for name, value in options.items() if value is not None},
        }


class Chat(Completion, Conversation):
    messages: Messages
    max_completion_tokens: Length | None = None
    max_tokens: Length | None = None
    logprobs: bool = False
    top_logprobs: Alternatives | None = None
    reasoning_effort: str | None = None

    def told(self) -> dict[str, Any]:
        if self.top_logprobs is not None and not self.logprobs:
            raise BadRequest("top_logprobs needs logprobs to be true.")
        return {
            **super().told(),
            **self.of_messages(self.messages, reasoning_effort=self.reasoning_effort),
            "longest": self.max_completion_tokens or self.max_tokens,
            "alternatives": (self.top_logprobs or 0) if self.logprobs else None,
        }


class Text(Completion):
    """A completion of the older kind. Where it is to have no token only its prompt is read, as those do who score
    texts."""

    prompt: Annotated[Texts, Field(max_length=MAX_PROMPTS)]
    max_completion_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] = SHORT
    suffix: str | None = None
    echo: bool = False
    best_of: Count | None = None
    logprobs: Alternatives | None = None

    def told(self) -> dict[str, Any]:
        if self.best_of not in (None, self.n):
            raise BadRequest("best_of must be left out or equal to n.")
        longest = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return {
            **super().told(), "prompts": self.prompt, "longest": longest or SHORT, "writes": longest > 0,
            "suffix": self.suffix or None, "echo": self.echo, "alternatives": self.logprobs,
        }  # fmt: skip
