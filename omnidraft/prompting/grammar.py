"""What an answer must follow, described: `Grammar`, made from a JSON schema, from GBNF, or written in Lark.

Grammars are llguidance's: bounded, lazy, exact to the byte. Knows no vocabulary; grammar_state.py follows them.
Notation: llguidance, docs/syntax.md.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import llguidance

from omnidraft.errors import GrammarError, ModelError
from omnidraft.prompting.formats.channels import THOUGHT_MARKS
from omnidraft.prompting.formats.chat_format import WrittenCall
from omnidraft.prompting.gbnf import gbnf_to_lark
from omnidraft.prompting.json_schema import places, schema_text
from omnidraft.prompting.templates import ChatTemplate

END = 256  # behind the 256 bytes; then the grammar's control tokens
_LIMITS = llguidance.LLParserLimits(max_grammar_size=20_000, verbose_errors=False)
_STACK = 256 << 20  # bytes; llguidance descends 2 to 8 KB for each level of a grammar
_QUIET = 0
_PLACE = re.compile(r"^(at )?\d+\(\d+\): (failed to compile JSON schema: )?")  # in Lark that nobody but us has seen
_DETAIL = re.compile(r"\A.*\n +(.*)\n[ ^]*\nerror: (.*)$", re.MULTILINE)  # a regular expression and its fault


@dataclass(frozen=True, slots=True)
class Grammar:
    """text: Lark with a rule `start`; controls: control tokens (as text) that it may write besides plain ones, where it
    says `control0`, `control1`, ...; before: Lark with a rule `before`, of what stands in front of it."""

    text: str
    controls: tuple[str, ...] = ()
    before: str = ""


def json_grammar(schema: Any = None) -> Grammar:
    """JSON that follows `schema` (a JSON schema as Python values), or any JSON object without one."""
    return Grammar(f"start: {json_part(schema)}")


def json_part(schema: Any = None) -> str:
    """Lark for a value that follows `schema`."""
    return f"%json {schema_text({'type': 'object'} if schema is None else schema)}"


def unkept(schema: Any) -> list[str]:
    """What of a JSON schema its grammar does not hold, each with its place; GrammarError for what is no schema."""
    return places(schema, by_bytes(json_grammar(schema), ()).get_grammar_warnings())


def gbnf_grammar(text: str) -> Grammar:
    """The grammar that `text` describes in llama.cpp's notation."""
    return Grammar(gbnf_to_lark(text))


def literal(text: str) -> str:
    """Lark for `text` as it is."""
    return json.dumps(text, ensure_ascii=False)


def check_grammar(grammar: Grammar) -> None:
    """GrammarError for what is no grammar, or beyond the limits."""
    by_bytes(grammar, (None,) * len(grammar.controls))


def by_bytes(grammar: Grammar, controls: tuple[int | None, ...]) -> llguidance.LLMatcher:
    """A matcher of the grammar whose tokens are the 256 bytes, `END`, and one for each control token.

    controls: of each of the grammar's control tokens the id, None where the vocabulary has none and it is spelled.
    """
    return _by_bytes(grammar, controls).deep_copy()


@lru_cache(maxsize=16)
def _by_bytes(grammar: Grammar, controls: tuple[int | None, ...]) -> llguidance.LLMatcher:
    matcher = compiled(grammar, controls, _bytes(controls), forcing=True)
    matcher.compute_bitmask()  # what never ends, or takes too much work, fails only now
    refuse_failed(matcher)
    return matcher


def compiled(
    grammar: Grammar, controls: tuple[int | None, ...], tokens: llguidance.LLTokenizer, *, forcing: bool
) -> llguidance.LLMatcher:
    """A matcher of the grammar over `tokens`, in which control tokens have the names `control_name` gives them.

    forcing: whether text without choice is spelled in one way alone, as with bytes there is only one.
    """
    named = [
        f"control{i}: {literal(text) if token is None else f'<|{token}|>'}"
        for i, (text, token) in enumerate(zip(grammar.controls, controls, strict=True))
    ]
    rules = [grammar.text, *named]
    if grammar.before:
        rules = ["start: before answer", grammar.before, *named, "answer: %lark {", *rules, "}"]
    settings = f"%llguidance {json.dumps({'no_forcing': not forcing})}"
    text = llguidance.LLMatcher.grammar_from_lark("\n".join([settings, *rules]))
    matcher = _with_deep_stack(text, tokens)
    refuse_failed(matcher)
    return matcher


def refuse_failed(matcher: llguidance.LLMatcher) -> None:
    """GrammarError if the matcher has given up."""
    if matcher.is_error():
        raise GrammarError(f"This cannot be turned into a grammar: {_reason(matcher.get_error())}.")


def _reason(told: str) -> str:
    """llguidance's message in a sentence's middle."""
    if told.startswith("panic"):
        return "it is too large"
    if "NoExtension" in told:
        return "it never ends"
    first = _PLACE.sub("", told.split("\n")[0]).removesuffix("<non-verbose/>")
    detail = _DETAIL.search(told)
    return f"{first} {detail[2]}, in {detail[1][:100]}"[:300] if detail else first[:200].rstrip(".: ")


def _with_deep_stack(text: str, tokens: llguidance.LLTokenizer) -> llguidance.LLMatcher:
    """Compiled in a thread of its own: the longest chains of rules and references overrun an ordinary stack."""
    made: list[llguidance.LLMatcher] = []
    make = lambda: made.append(llguidance.LLMatcher(tokens, text, log_level=_QUIET, limits=_LIMITS))  # noqa: E731
    before = threading.stack_size(_STACK)
    try:
        thread = threading.Thread(target=make, name="grammar")
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return made[0]


@cache
def _bytes(controls: tuple[int | None, ...]) -> llguidance.LLTokenizer:
    names = [control_name(token) for token in controls]
    return tokenizer([*(bytes([value]) for value in range(END)), control_name(END), *names], END)


def control_name(token: int | None) -> bytes:
    """How llguidance is told of a token that is no text; `<|token|>` in Lark."""
    return f"\xff<|{token}|>".encode("latin-1")


def tokenizer(pieces: list[bytes], end: int) -> llguidance.LLTokenizer:
    """llguidance's view of tokens with these bytes. It is never asked to cut text into them."""
    special = [i for i, piece in enumerate(pieces) if piece.startswith(b"\xff<")]
    view = llguidance.TokenizerWrapper(_Tokens(end, pieces, special))
    slices = llguidance.LLTokenizer.json_slices() if len(pieces) > 1 << 12 else []
    return llguidance.LLTokenizer(view, eos_token=end, slices=slices)


@dataclass(slots=True)
class _Tokens:
    """What `TokenizerWrapper` reads."""

    eos_token_id: int
    tokens: list[bytes]
    special_token_ids: list[int]
    bos_token_id: None = None

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


# Grammars in the way a model writes: of exactly one call of one of several functions, of what precedes an answer. What
# parts text into calls again is in `formats`.


_ANYTHING = r"/[\s\S]*/"
_SPACE = r"/[ \t\r\n]*/"


def required_call(template: ChatTemplate, functions: Sequence[dict[str, Any]]) -> Grammar:
    """The grammar for the model of this template; ModelError where it writes calls in a way of its own."""
    written = next((shape.written for shape in template.form.calls if shape.written is not None), None)
    if written is None:
        raise ModelError(f"{template.name} writes calls in a way that cannot be required; let it choose.")
    return call_grammar(written, functions, tuple(text.decode() for text in template.markers.values()))


def call_grammar(written: WrittenCall, functions: Sequence[dict[str, Any]], controls: tuple[str, ...] = ()) -> Grammar:
    """functions: {"name", "parameters": a JSON schema, of an object}; controls: texts that are control tokens where the
    vocabulary has them."""
    if not functions:
        raise ModelError("There is no tool to call.")
    rules = [f"start: {' | '.join(f'call{i}' for i in range(len(functions)))}"]
    for i, function in enumerate(functions):
        rules += _call(written, f"call{i}", function, controls)
    return Grammar("\n".join(rules), controls)


def _call(written: WrittenCall, rule: str, function: dict[str, Any], controls: tuple[str, ...]) -> Iterator[str]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    schema = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    before = _lark(_parts(written.before + function["name"] + written.between, controls), controls)
    arguments = f"{rule}_values" if written.tags else json_part(schema)
    yield f"{rule}: {before} {arguments} {_lark(_parts(written.behind, controls), controls)}"
    if written.tags is None:
        return
    begin, between, end = written.tags
    required = schema.get("required", ())
    shared = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    values = []
    for i, (name, value) in enumerate(schema.get("properties", {}).items()):
        values.append(f"{rule}_{i}{'' if name in required else '?'}")
        text = _value(end, value, shared)
        if isinstance(value, dict) and value.get("type") == "string" and "enum" not in value:
            yield f"{rule}_{i}_text[lazy]: {text}"
            text = f"{rule}_{i}_text"
        yield f"{rule}_{i}: {literal(begin + name + between)} {text}"
    yield f"{rule}_values: {' '.join(values)}"


def _value(behind: str, schema: Any, shared: dict[str, Any]) -> str:
    """Lark for a value in tags and what closes it."""
    choices = schema.get("enum") if isinstance(schema, dict) else None
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(map(literal, choices))}) {literal(behind)}"
    if isinstance(schema, dict) and schema.get("type") == "string":
        return f"{_ANYTHING} {literal(behind)}"
    return f"{json_part({**schema, **shared} if isinstance(schema, dict) else {})} {literal(behind)}"


def behind_thoughts(grammar: Grammar, template: ChatTemplate) -> Grammar:
    """The grammar for an answer of this template's model: behind thoughts that its prompt has opened, or in a channel;
    else as it is.

    Without that such a model would have to write the answer where its thoughts stand.
    """
    markers = [text.decode() for text in template.markers.values()]
    controls = (*grammar.controls, *(text for text in markers if text not in grammar.controls))
    if template.form.harmony:
        begin, end, bare = (_parts(mark, controls) for mark in THOUGHT_MARKS)
        before = f"before: {_lark(begin, controls)} thoughts | {_lark(bare, controls)}\n{_up_to(end, controls)}"
    elif template.opens_thoughts:
        end = [part for item in template.form.thoughts.ends[0] for part in _parts(str(item), controls)]
        before = f"before: thoughts {_SPACE}\n{_up_to(end, controls)}"
    else:
        return grammar
    return replace(grammar, before=before, controls=controls)


def _up_to(end: Sequence[str], controls: Sequence[str]) -> str:
    """A rule in Lark, `thoughts`: any text and the first `end` behind it. A control token stands in no text."""
    if end[0] in controls:
        return f"thoughts: {_ANYTHING} {_lark(end, controls)}"
    return f"thoughts: thought {_lark(end[1:], controls)}\nthought[lazy]: {_ANYTHING} {literal(end[0])}"


def _parts(text: str, controls: Sequence[str]) -> list[str]:
    """The text cut at its control tokens."""
    return [part for part in re.split(f"({'|'.join(map(re.escape, controls)) or '$^'})", text) if part]


def _lark(parts: Sequence[str], controls: Sequence[str]) -> str:
    """Lark for these parts, control tokens by their rules."""
    return " ".join(f"control{controls.index(part)}" if part in controls else literal(part) for part in parts)
