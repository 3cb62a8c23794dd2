"""JSON schemas made ready for `llguidance`, which turns them into grammars: `schema_text`.

It reads them as the standard says, where an object may hold anything beside the properties it names. A model that may
write more does, so here objects are closed unless the schema speaks of additional properties, as in llama.cpp and in
OpenAI's strict mode. Knows nothing of grammars or tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from omnidraft.errors import GrammarError
from omnidraft.format import size

_MAX_LENGTH = 1_000_000  # bytes of text
_MAX_NESTING = 60  # schemas inside each other
_MAX_REQUIRED = 100_000  # times something may be demanded: an answer has to get there
_LOWEST = -9.2e18  # llguidance 1.9.1 overruns any stack where a value must be below, near the least of 64 bits
_OPTIONS = {
    "lenient": True,  # what is beyond a grammar (uniqueItems, not, ...) is named by `places`
    "coerce_one_of": True,
    "json_allow_general_unicode_escapes": True,
    "whitespace_pattern": r" |\r?\n[ \t]{0,20}",  # else an answer may consist of it
}
_ONE = (
    "items", "additionalProperties", "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else",
)  # fmt: skip
_LIST = ("anyOf", "allOf", "oneOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OTHERS = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_FLOORS = ("minimum", "exclusiveMinimum", "default")  # numbers there are no ceiling
_COMBINED = ("allOf", "anyOf", "oneOf", "$ref", "if")


def schema_text(schema: Any) -> str:
    """`schema` (Python values) as text for `%json`; GrammarError for what is no schema, or beyond the limits."""
    if not isinstance(schema, dict):
        raise GrammarError("A JSON schema must be an object.")
    try:
        text = json.dumps(schema)
        if len(text) > _MAX_LENGTH:  # first, for going through all of it takes much longer
            raise GrammarError(f"This JSON schema is longer than {size(_MAX_LENGTH)}.")
        for part in _parts(schema, 0):
            _check_counts(part)
        if any(number < _LOWEST for number in _numbers(schema)):
            raise GrammarError(f"This JSON schema asks for a number below {_LOWEST:g}.")
        return json.dumps({**_closed(_kept(schema)), "x-guidance": _OPTIONS})
    except (ValueError, RecursionError):
        raise GrammarError("This JSON schema is nested too deeply.") from None


# What llguidance says it drops of a schema, and words that it takes for remarks.
_DROPPED = re.compile(r"Unimplemented keys: (\[.*\])")
_FORMAT = "Unknown format: "
_REMARKS = ("contentEncoding", "contentMediaType", "contentSchema")
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def places(schema: Any, warnings: Sequence[str]) -> list[str]:
    """Where a schema asks for what its grammar does not hold ("uniqueItems at #/items"), by llguidance's warnings."""
    words, formats = set[str](), set[str]()
    for told in warnings:
        if (found := _DROPPED.match(told)) is not None:
            words.update(json.loads(found[1]))
        elif told.startswith(_FORMAT):
            formats.add(told.removeprefix(_FORMAT))
        elif told.startswith("oneOf"):
            words.add("oneOf")
    found_at: dict[str, None] = {}
    for path, part in _placed(json.loads(_kept(schema)), "#", 0):
        named = [word for word in part if word in words or word in _REMARKS]
        named += ["format"] if part.get("format") in formats else []
        found_at |= dict.fromkeys(f"{word} at {path}" for word in named)
    told_of = {place.partition(" ")[0] for place in found_at}
    return [*found_at, *(word for word in sorted(words) if word not in told_of)]


def broken(value: Any, schema: Any) -> str | None:
    """What of a schema a value breaks, as the part of a sentence; None for nothing. Regular expressions are passed
    over, as in `fits`: grammars hold them."""
    from jsonschema import FormatChecker
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    try:
        known = json.loads(json.dumps(schema))
        for part in list(_parts(known, 0)):
            for word in ("pattern", "patternProperties"):
                part.pop(word, None)
        kind = validator_for(known, default=Draft202012Validator)
        error = best_match(kind(known, registry=Registry(), format_checker=FormatChecker()).iter_errors(value))
    except Exception:  # of a schema that nobody can make sense of: references to nothing or without an end
        return "a schema that cannot be checked"
    return None if error is None else f"{error.validator} at #/{'/'.join(map(str, error.absolute_schema_path))}"


def _kept(schema: Any) -> str:
    """The text of a schema without what asks for nothing, and in words that a grammar can hold."""
    kept = json.loads(json.dumps(schema))
    for part in list(_parts(kept, 0)):
        if part.get("uniqueItems") is False:
            del part["uniqueItems"]
        if "then" not in part and "else" not in part:
            part.pop("if", None)
        if "contains" not in part:
            for word in ("minContains", "maxContains"):
                part.pop(word, None)
        if part.get("contentEncoding") == "base64" and not {"pattern", "format"} & part.keys():
            del part["contentEncoding"]
            part["pattern"] = _BASE64
        if "unevaluatedProperties" in part and not any(word in part for word in (*_COMBINED, "additionalProperties")):
            part["additionalProperties"] = part.pop("unevaluatedProperties")
    return json.dumps(kept)


def fits(value: Any, schema: Any) -> bool:
    """Whether `value` is what `schema` describes, objects closed as in `schema_text`; False for what is no schema.

    Regular expressions are passed over: Python takes for ever with some. Nothing is fetched that a reference names.
    """
    from jsonschema import Draft202012Validator  # here, as its own takes a tenth of a second to import
    from referencing import Registry

    try:
        known = _closed(json.dumps(schema))
        for part in list(_parts(known, 0)):
            part.pop("pattern", None)
            if part.pop("patternProperties", None) is not None:
                part.pop("additionalProperties", None)
        Draft202012Validator.check_schema(known)
        return bool(Draft202012Validator(known, registry=Registry()).is_valid(value))
    except Exception:  # of a schema that nobody can make sense of: references to nothing or without an end
        return False


def _numbers(value: Any, literal: bool = False) -> Iterator[float]:
    """All numbers that something may have to equal or stay below. literal: inside a constant, where no word is one."""
    if isinstance(value, dict):
        for word, inner in value.items():
            if literal or word not in _FLOORS or isinstance(inner, (dict, list)):
                yield from _numbers(inner, literal or word in ("const", "enum"))
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, literal)
    elif isinstance(value, (int, float)):
        yield value


def _parts(schema: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The schema and all inside it."""
    return (part for _, part in _placed(schema, "#", depth))


def _placed(schema: Any, path: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same with where each is."""
    if not isinstance(schema, dict):
        return
    if depth > _MAX_NESTING:
        raise GrammarError("This JSON schema is nested too deeply.")
    yield path, schema
    for step, inner in _inside(schema):
        yield from _placed(inner, f"{path}/{step}", depth + 1)


def _inside(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, and where."""
    for word in _ONE:
        if isinstance(schema.get(word), dict):
            yield word, schema[word]
    for word in _LIST:
        if isinstance(schema.get(word), list):
            yield from ((f"{word}/{at}", inner) for at, inner in enumerate(schema[word]))
    for word in _NAMED:
        if isinstance(schema.get(word), dict):
            yield from ((f"{word}/{name}", inner) for name, inner in schema[word].items())


def _closed(text: str) -> Any:
    """The schema of this text with objects that hold what they name and nothing else."""
    schema = json.loads(text)
    parts = list(_parts(schema, 0))
    if not any(map(_combines, parts)):
        for part in parts:
            if _named(part) and not any(word in part for word in _OTHERS):
                part["additionalProperties"] = False
    return schema


def _named(schema: dict[str, Any]) -> bool:
    """Whether the schema names properties, all required ones among them."""
    properties, required = schema.get("properties"), schema.get("required", ())
    return (
        isinstance(properties, dict)
        and isinstance(required, (list, tuple))
        and set(map(str, required)) <= set(properties)
    )


def _combines(part: dict[str, Any]) -> bool:
    """Whether an object is described in several places: none of them can tell that there is no more to it."""
    return "allOf" in part or ("properties" in part and any(word in part for word in _COMBINED))


def _check_counts(part: dict[str, Any]) -> None:
    for word in ("minLength", "minItems", "minProperties"):
        value = part.get(word)
        if isinstance(value, (int, float)) and value > _MAX_REQUIRED:
            raise GrammarError(f"This JSON schema has a {word} of {value:,}; at most {_MAX_REQUIRED:,} are possible.")


def referred(root: Any, name: Any) -> Any:
    """The schema that a reference (`$ref`) names; None for none, or one that cannot be found."""
    if not isinstance(name, str) or not name.startswith("#"):
        return None
    found: Any = root
    for step in unquote(name).lstrip("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(step)] if step.isdecimal() and int(step) < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found
