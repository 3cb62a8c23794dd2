"""JSON schemas turned into GBNF: `json_grammar`, in bounded time and memory.

The conversion is llama-cpp-python's, in a copy of its own: it would write out every repetition (a `maxLength` of a
billion takes all memory), confuses references of one name, does not know `#`, and lets texts into strings that JSON
forbids. What is different here is said at each place. Knows nothing of models.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections import defaultdict
from functools import cache
from typing import Any
from urllib.parse import unquote

from llama_cpp import llama_grammar

from omnidraft.backends.prompting.gbnf.limits import MAX_LENGTH, GrammarError

_MAX_RULES = 200_000  # asked for, most of them the same again
_LOOSE, _STRICT = r'[^"\\] |', r'[^"\\\x7F\x00-\x1F] |'
_LOOSE_DOT, _STRICT_DOT = r"[^\x0A\x0D]", r'[^"\\\x7F\x00-\x1F]'
_ANY_OBJECT = llama_grammar.JSON_GBNF
_COUNTS = (("minItems", "maxItems"), ("minLength", "maxLength"))


def json_grammar(schema: Any = None) -> str:
    """GBNF for JSON that follows `schema` (a JSON schema as Python values), or for any JSON object without one.

    Structure, types, enumerations, lengths, patterns and references are enforced; bounds of numbers are not.
    """
    if schema is None or schema == {}:
        return _ANY_OBJECT
    if not isinstance(schema, dict):
        raise GrammarError("A JSON schema must be an object.")
    try:
        return _converter_class()(schema).grammar()
    except GrammarError:
        raise
    except RecursionError:
        raise GrammarError("This JSON schema is nested too deeply.") from None
    except (AssertionError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise GrammarError(f"This JSON schema cannot be turned into a grammar: {reason}.") from None


def literal(text: str) -> str:
    """`text` as a GBNF string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _repetition(item: str, low: int, high: int | None, separator_rule: str | None = None, **_: Any) -> str:
    """The counts as they are, for the compiler of grammars spells them out in little space."""
    if high == 0:
        return ""
    if separator_rule is None:
        return f"{item}{{{low},{'' if high is None else high}}}"
    more = f"({separator_rule} {item}){{{max(low - 1, 0)},{'' if high is None else high - 1}}}"
    return f"{item} {more}" if low else f"({item} {more})?"


def _own_copy() -> Any:
    """llama-cpp-python's converter with repetitions of our own, beside the one others may use."""
    spec = importlib.util.find_spec("llama_cpp.llama_grammar")
    if spec is None or spec.loader is None:
        raise ImportError("llama-cpp-python has no converter of JSON schemas")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._build_repetition = _repetition
    rules = module.PRIMITIVE_RULES
    # JSON has neither raw line breaks in strings nor, where a pattern has a dot, quotes.
    rules["char"].content = rules["char"].content.replace(_LOOSE, _STRICT)
    module.DOT = module.DOT.replace(_LOOSE_DOT, _STRICT_DOT)
    return module


class _References(dict):
    """What references lead to, looked up in the schema when they are met."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise ValueError(f"the reference {str(reference)[:100]} leads out of the schema")
        target: Any = self._schema
        for part in unquote(reference[1:]).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(name)] if isinstance(target, list) else target[name]
            except (LookupError, TypeError, ValueError):
                raise ValueError(f"the reference {reference[:100]} leads nowhere") from None
        self[reference] = target
        return target


@cache
def _converter_class() -> type:
    module = _own_copy()

    class Converter(module.SchemaConverter):  # type: ignore[name-defined]
        def __init__(self, schema: dict[str, Any]) -> None:
            super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
            self._refs = _References(schema)
            self._schema = schema
            self._names: dict[str, str] = {"#": "root"}  # of references, each one of its own
            self._keys: dict[tuple[str, str], str] = {}
            self._used: dict[str, int] = defaultdict(int)
            self._asked = self._size = 0

        def grammar(self) -> str:
            super().visit(_checked(self._schema), "")
            return self.format_grammar()

        def visit(self, schema: Any, name: str) -> str:
            # The empty name is the root's alone, though a property may be called "".
            return super().visit(_checked(schema), name or "empty")

        def _resolve_ref(self, ref: str) -> str:
            if ref not in self._names:
                self._names[ref] = f"ref{len(self._names)}"
                self._names[ref] = self.visit(self._refs[ref], self._names[ref])
            return self._names[ref]

        def _add_rule(self, name: str, rule: str) -> str:
            self._asked += 1
            name = module.INVALID_RULE_CHARS_RE.sub("-", name)
            if (key := self._keys.get((name, rule))) is not None:
                return key
            self._size += len(rule)
            if self._asked > _MAX_RULES or self._size > MAX_LENGTH:
                raise GrammarError("This JSON schema is too large.")
            key = name
            while key in self._rules and self._rules[key] != rule:
                key = f"{name}{self._used[name]}"
                self._used[name] += 1
            self._rules[key] = self._keys[name, rule] = rule
            self._keys[name, rule] = key
            return key

        def _format_literal(self, literal_: str) -> str:
            # What comes is JSON in ASCII, with backslashes of its own.
            return literal(json.dumps(json.loads(literal_), ensure_ascii=False))

    return Converter


def _checked(schema: Any) -> Any:
    """`schema` with counts that make sense, and a pattern whose alternatives stay inside its quotes."""
    if not isinstance(schema, dict):
        raise GrammarError("This JSON schema cannot be turned into a grammar: every part of it must be an object.")
    names = [name for pair in _COUNTS for name in pair if schema.get(name) is not None]
    counts: dict[str, Any] = {name: _count(schema, name) for name in names}
    for low, high in _COUNTS:
        if counts.get(low, 0) > counts.get(high, counts.get(low, 0)):
            raise GrammarError(f"This JSON schema asks for a {low} of {counts[low]}, more than its {high}.")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and "|" in pattern and re.fullmatch(r"\^.*\$", pattern, re.DOTALL):
        counts["pattern"] = f"^({pattern[1:-1]})$"
    return {**schema, **counts} if counts else schema


def _count(schema: dict[str, Any], name: str) -> int:
    value = schema[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1 or not 0 <= value < 10**18:
        raise GrammarError(f"This JSON schema has a {name} that is no count.")
    return int(value)
