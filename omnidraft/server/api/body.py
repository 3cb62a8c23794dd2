"""The JSON object of a request. What it may hold is declared as pydantic models; what they refuse is told in a sentence
that names the field and does not show what was sent. Knows no endpoint."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Self

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from starlette.exceptions import HTTPException

from omnidraft.chats.records import json_value
from omnidraft.server.api.errors import BadRequest

# A field that nobody here reads is refused unless it asks for nothing: whatever it is, it would change the answer, or
# be meant to. What changes none of it, of OpenAI's, llama.cpp's and other programs' requests:
_SILENT = frozenset((
    "cache_prompt", "id_slot", "include_reasoning", "keep_alive", "metadata", "n_cache_reuse", "prediction", "priority",
    "prompt_cache_key", "prompt_cache_retention", "request_id", "response_fields", "return_progress", "return_tokens",
    "safety_identifier", "service_tier", "slot_id", "store", "timings_per_token", "usage", "user",
))  # fmt: skip
_NOTHING: tuple[Any, ...] = (None, False, [], {}, ["text"], "")  # what asks for nothing: 0 is equal to False
_OBJECT = "must be an object"
_TOLD = {  # by pydantic's types of errors
    "missing": "is missing", "extra_forbidden": "is not known here, so it would do nothing; leave it out",
    "string_type": "must be a text", "bool_type": "must be true or false", "int_type": "must be a whole number",
    "greater_than_equal": "must be at least {ge:,}", "less_than_equal": "must be at most {le:,}",
    "literal_error": "must be {expected}", "json_invalid": "must be JSON",
    "list_type": "must be a list", "too_short": "must be a list of at least {min_length}",
    "too_long": "must be a list of at most {max_length:,}", "dict_type": _OBJECT, "model_type": _OBJECT,
    "value_error": "{error}",
}  # fmt: skip


class Given(BaseModel):
    """An object in a request: what is null there was left out, what is not declared is not looked at."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class Body(Given):
    """A request's own object, of which nothing is passed over."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_silent(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value for name, value in given.items()
            if name in cls.model_fields or not (name in _SILENT or value in _NOTHING)
        }  # fmt: skip

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """The request that this object is; BadRequest for the first thing in it that is not as declared."""
        try:
            return cls.model_validate(given)
        except ValidationError as refused:
            error = refused.errors(include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])[1:101]
        raise BadRequest(f"{place} {_TOLD.get(error['type'], 'is not understood').format(**error.get('ctx', {}))}.")


def _listed(given: Any) -> list[Any]:
    """A text, a list of texts, the ids of one text, or a list of such; always as a list."""
    found = [given] if _is_text(given) else given
    if not isinstance(found, list) or not found or not all(map(_is_text, found)):
        raise ValueError("must be a text, a list of texts, or a list of token ids")
    return found


def _is_text(given: Any) -> bool:
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and all(type(i) is int for i in given))


Texts = Annotated[list[Any], BeforeValidator(_listed)]


async def read_body(request: Request) -> bytes:
    """The request's body, if it is not too large (guard/limits.py)."""
    try:
        return await request.body()
    except HTTPException as refused:
        raise BadRequest(refused.detail, refused.status_code) from None


def json_body(data: bytes) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        # Half an emoji, which JSON can say and UTF-8 cannot, becomes the mark for that here.
        body = json_value(json.loads(data, parse_constant=_finite, parse_float=_finite))
    except RecursionError:
        raise BadRequest("The request is nested too deeply.") from None
    except ValueError:
        raise BadRequest("The request is not JSON.") from None
    if not isinstance(body, dict):
        raise BadRequest("The request is not a JSON object.")
    return body


def _finite(text: str) -> float:
    """A number; JSON has no infinite ones, though Python reads them."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
