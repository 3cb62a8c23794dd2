"""What a request to the API asks for, checked: prompts, sampling, how many choices, what the answer must look like.

Every refusal is a `BadRequest` whose sentence says what is wrong. Messages and tools are other modules' business.
Knows no engine and writes no answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.app.session import Session
from omnidraft.errors import SettingsError
from omnidraft.prompting.grammar import Grammar, check_grammar, gbnf_grammar, json_grammar
from omnidraft.server.api.errors import BadRequest, biases, field, texts, whole
from omnidraft.server.api.messages import Tools, messages_of, notes, tools_of
from omnidraft.settings.config import DraftSettings, SamplingSettings

MAX_CHOICES = 32  # of one prompt; they are written one after the other
MAX_PROMPTS = 32
MAX_ALTERNATIVES = 20
SHORT = 16  # tokens of a completion of the older kind, unless it asks for more
_SEEDS = 2**63
_NOTHING: tuple[Any, ...] = (None, False, [], {}, ["text"], "")  # what asks for nothing: 0 is equal to False
_UNSUPPORTED = ("functions", "function_call", "audio", "modalities")
_TOLD = ("enable_thinking", "reasoning_effort")  # options of templates that clients send as fields of their own
EFFORT = "reasoning.effort"  # the second, as the Responses API names it
_UNSUPPORTED_TEXT = ("tools", "messages", "chat_template_kwargs", *_TOLD, *_UNSUPPORTED)
_SAMPLING = (
    "temperature",
    "top_p",
    "seed",
    "top_k",
    "min_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_LONGEST = ("max_completion_tokens", "max_tokens")

# Every other field is refused unless it asks for nothing: whatever it is, it would change the answer, or be meant to.
# What changes none of it, of OpenAI's, llama.cpp's and other programs' requests:
_SILENT = frozenset((
    "cache_prompt", "id_slot", "include_reasoning", "keep_alive", "metadata", "n_cache_reuse", "prediction", "priority",
    "prompt_cache_key", "prompt_cache_retention", "request_id", "response_fields", "return_progress", "return_tokens",
    "safety_identifier", "service_tier", "slot_id", "store", "timings_per_token", "usage", "user",
))  # fmt: skip
_KNOWN = frozenset((
    "model", "speculation", "stream", "stream_options", "logit_bias", "n", "stop", "logprobs", "grammar",
    "response_format", *_SAMPLING, *_LONGEST, *_UNSUPPORTED,
))  # fmt: skip
_OF_CHATS = frozenset((
    "messages", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "chat_template_kwargs", *_TOLD,
))  # fmt: skip
_OF_TEXTS = frozenset(("prompt", "suffix", "echo", "best_of", *_UNSUPPORTED_TEXT))

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
    prompts: list[Prompt]
    sampling: SamplingSettings
    draft: DraftSettings
    form: AnswerForm
    tools: Tools | None
    stream: bool
    usage: bool  # whether a stream ends with the usage
    n: int = 1  # choices for each prompt
    alternatives: int | None = None
    echo: bool = False
    writes: bool = True
    suffix: str | None = None  # what stands behind the text that is to be written
    trims: bool = False  # whether the far ends of both may go where they do not fit
    template_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    bias: Mapping[int, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def chat(cls, session: Session, body: dict[str, Any]) -> CompletionRequest:
        """What a request for a chat completion with this body asks for."""
        refuse_unknown(body, _KNOWN | _OF_CHATS)
        _refuse(body, _UNSUPPORTED)
        form, tools = _form(body), tools_of(body)
        if form.grammar is not None and tools is not None:
            raise BadRequest("Tools cannot be offered together with response_format or grammar; send one of them.")
        told = field(body, "logprobs", bool)
        alternatives = whole(body, "top_logprobs", 0, MAX_ALTERNATIVES)
        if alternatives is not None and not told:
            raise BadRequest("top_logprobs needs logprobs to be true.")
        return cls(
            prompts=[messages_of(body.get("messages"))],
            form=form,
            tools=tools,
            alternatives=(alternatives or 0) if told else None,
            template_options=_template_options(body),
            **_common(session, body, session.settings.sampling),
        )

    @classmethod
    def text(cls, session: Session, body: dict[str, Any]) -> CompletionRequest:
        """What a request for a completion of the older kind asks for."""
        refuse_unknown(body, _KNOWN | _OF_TEXTS)
        _refuse(body, _UNSUPPORTED_TEXT)
        alternatives, echo = whole(body, "logprobs", 0, MAX_ALTERNATIVES), bool(field(body, "echo", bool))
        longest = next((name for name in _LONGEST if body.get(name) is not None), "")
        writes = not (type(body.get(longest)) is int and body[longest] == 0)
        if not writes:  # only its prompt is read, as those do who score texts
            body = {name: value for name, value in body.items() if name != longest}
        common = _common(session, body, replace(session.settings.sampling, max_tokens=SHORT))
        if not writes:
            common["draft"] = replace(common["draft"], enabled=False)
        if whole(body, "best_of", 1, MAX_CHOICES) not in (None, common["n"]):
            raise BadRequest("best_of must be left out or equal to n.")
        return cls(
            prompts=texts(body, "prompt", MAX_PROMPTS),
            form=_form(body),
            tools=None,
            alternatives=alternatives,
            echo=echo,
            writes=writes,
            suffix=field(body, "suffix", str) or None,
            **common,
        )

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


def _refuse(body: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if body.get(name) not in _NOTHING:
            raise BadRequest(f"{name} is not supported here.")


def refuse_unknown(body: dict[str, Any], known: Collection[str]) -> None:
    """BadRequest for a field that nobody here reads, unless it asks for nothing or changes no answer."""
    for name, value in body.items():
        if name not in known and name not in _SILENT and value not in _NOTHING:
            raise BadRequest(f"{name[:100]} is not known here, so it would do nothing; leave it out.")


def _common(session: Session, body: dict[str, Any], sampling: SamplingSettings) -> dict[str, Any]:
    """What both kinds of requests have."""
    options = field(body, "stream_options", dict) or {}
    draft, speculation = session.settings.draft, field(body, "speculation", bool)
    return {
        "model": field(body, "model", str) or "",
        "sampling": _sampling(sampling, body),
        "draft": draft if speculation is None else replace(draft, enabled=speculation),
        "stream": bool(field(body, "stream", bool)),
        "usage": bool(field(options, "include_usage", bool)),
        "bias": biases(body, "logit_bias"),
        "n": whole(body, "n", 1, MAX_CHOICES) or 1,
    }


def _sampling(settings: SamplingSettings, body: dict[str, Any]) -> SamplingSettings:
    """The settings' own rules refuse what is of another type, under the name it was sent by."""
    values = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
    longest = next((name for name in _LONGEST if body.get(name) is not None), "")
    if longest:
        values["max_tokens"] = body[longest]
    stop = field(body, "stop", str, list)
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    try:
        return replace(settings, **values)
    except SettingsError as error:
        told = str(error).replace("The setting sampling.max_tokens", longest)
        raise BadRequest(told.replace("The setting sampling.", "")) from None


def _form(body: dict[str, Any]) -> AnswerForm:
    """What `response_format` or `grammar` (GBNF) asks for."""
    form, text = field(body, "response_format", dict), field(body, "grammar", str)
    kind = form.get("type") if form is not None else None
    if form is not None and kind not in ("text", "json_object", "json_schema"):
        raise BadRequest("response_format must be of type text, json_object or json_schema.")
    if form is None or kind == "text":
        grammar = gbnf_grammar(text) if text is not None else None
        if grammar is not None:
            check_grammar(grammar)
        return AnswerForm(grammar)
    if text is not None:
        raise BadRequest("response_format and grammar cannot be used together.")
    schema, strict = _schema(form, kind)
    grammar = json_grammar(schema)
    check_grammar(grammar)
    return AnswerForm(grammar, schema, notes("response_format", schema, strict))


def _schema(form: dict[str, Any], kind: str | None) -> tuple[Any, bool]:
    """The schema that an answer must follow, and whether it must be held whole; llama.cpp has it beside json_object,
    where it may be left out."""
    described = form if kind == "json_object" else form.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if not isinstance(schema, dict) and (kind == "json_schema" or schema is not None):
        raise BadRequest(f"response_format of type {kind} needs {'' if described is form else 'json_schema.'}schema, "
                         "an object.")  # fmt: skip
    return schema, bool(field(described or {}, "strict", bool))


def _template_options(body: dict[str, Any]) -> dict[str, Any]:
    field(body, "enable_thinking", bool)
    field(body, "reasoning_effort", str)
    given = {name: body[name] for name in _TOLD if body.get(name) is not None}
    return given | (field(body, "chat_template_kwargs", dict) or {})
